"""The pages that a browser shows at `/`: inbox, runs, and the form that starts one. Not part of the HTTP API."""
