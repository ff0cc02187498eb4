"""What a probe, a gate or `turngate conform` found becomes a view, and each report format is written from the view."""

SARIF, HTML = ".sarif", ".html"
# by module and function, because a run without --report needs none of them
FORMATS = {
    ".json": "turngate_probes.report.publish:as_json",
    ".xml": "turngate_probes.report.junit:junit",
    SARIF: "turngate_probes.report.sarif:sarif",
    ".md": "turngate_probes.report.markdown:markdown",
    HTML: "turngate_probes.report.page:page",
}
# SARIF places each result in a file, and nothing in the user's repository pins an orchestrator's behaviour
ORCHESTRATOR_FORMATS = tuple(suffix for suffix in FORMATS if suffix != SARIF)
