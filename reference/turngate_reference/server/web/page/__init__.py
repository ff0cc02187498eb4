"""What a browser shows at `/`: the inbox, the runs, and the form that starts one. It is no part of the HTTP API."""
