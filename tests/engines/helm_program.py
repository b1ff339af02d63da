"""Renders a chart by Helm's own SDK, and holds what comes of it to Kubernetes' schemas."""

from typing import Any

import helm_python
import kubernetes_validate
import yaml
from program import question, tell


def render(path: str, values: dict[str, Any], kubernetes: str) -> dict[str, Any]:
    """The resources of a chart for a version of Kubernetes, and what is wrong with it."""
    answer: dict[str, Any] = {"resources": [], "notes": "", "wrong": [], "refused": ""}
    report = helm_python.chart.lint(path, values, strict=True)
    answer["wrong"] += [text for text in map(str, report["messages"]) if "icon" not in text]
    with helm_python.Chart.load(path) as chart:
        try:
            chart.validate_schema(values)
            rendered = chart.render(values, name="test", namespace="serving")
        except helm_python.HelmError as error:
            return answer | {"refused": str(error)}
    for name, text in rendered.items():
        if name.endswith(".txt"):
            answer["notes"] = text
            continue
        for resource in filter(None, yaml.safe_load_all(text)):
            answer["resources"].append(resource)
            try:
                kubernetes_validate.validate(resource, kubernetes, strict=True)
            except kubernetes_validate.SchemaNotFoundError as error:
                answer["wrong"].append(f"no schema for {error.kind}")
            except kubernetes_validate.ValidationError as error:
                place = ".".join(map(str, error.path))
                answer["wrong"].append(f"{name}: {place}: {error.message}")
    return answer


if __name__ == "__main__":
    tell(render(**question()))
