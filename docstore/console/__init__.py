"""The console: a page about the process for a browser, and its figures for Prometheus, on a port of their own.

Modules: `start` (whether and where it listens), `server` (connections and their bounds), `guard` (who may ask from
where), `handlers` (what is answered), `logins`, `commands` (a command run in process), `extended_json`, `assets` and
`page` (what the browser gets), `metrics` (Prometheus).

Always true: there is no way to data but the process's own commands, run as the user who has logged in, with that user's
privileges; nothing is changed by a GET; what a client sends, takes and waits for is bounded.
"""
