"""Renders a chart by Helm's own SDK, and holds what comes of it to Kubernetes' schemas."""

import json
import sys
from typing import Any

import helm_python
import kubernetes_validate
import yaml


def main() -> None:
    """Takes chart, values and version of Kubernetes; prints resources, and what is wrong."""
    question = json.loads(sys.argv[1])
    answer: dict[str, Any] = {"resources": [], "notes": "", "wrong": [], "refused": ""}
    report = helm_python.chart.lint(question["chart"], question["values"], strict=True)
    answer["wrong"] += [text for text in map(str, report["messages"]) if "icon" not in text]
    with helm_python.Chart.load(question["chart"]) as chart:
        try:
            chart.validate_schema(question["values"])
            rendered = chart.render(question["values"], name="test", namespace="serving")
        except helm_python.HelmError as error:
            print(json.dumps(answer | {"refused": str(error)}))
            return
    for name, text in rendered.items():
        if name.endswith(".txt"):
            answer["notes"] = text
            continue
        for resource in filter(None, yaml.safe_load_all(text)):
            answer["resources"].append(resource)
            try:
                kubernetes_validate.validate(resource, question["kubernetes"], strict=True)
            except kubernetes_validate.SchemaNotFoundError as error:
                answer["wrong"].append(f"no schema for {error.kind}")
            except kubernetes_validate.ValidationError as error:
                place = ".".join(map(str, error.path))
                answer["wrong"].append(f"{name}: {place}: {error.message}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
