"""The frame of every HTML page of ours: it holds all that it needs and loads nothing."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: #1b1f24; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
dl {{ display: grid; grid-template-columns: max-content auto; gap: 0 1rem; }}
dt {{ color: #57606a; }} dd, figure {{ margin: 0; }}
{style}
</style>
{scripts}
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def html_page(title: str, body: str, *, style: str, scripts: str) -> str:
    """A whole page: `body` below the title, `style` after the common rules."""
    return _PAGE.format(title=title, body=body, style=style, scripts=scripts)
