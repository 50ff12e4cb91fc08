"""The console: a page about the process for a browser, and its metrics for Prometheus, on a port of their own.

Modules: `start` (the configuration), `server` (connections and their limits), `guard` (admission of requests),
`handlers` (answers), `logins`, `commands` (a command run in process), `extended_json`, `assets` and `page` (the files
for the browser), `metrics` (Prometheus).

Invariants:

- data is accessible only by the process's own commands, run with the privileges of the logged-in user;
- a GET changes nothing;
- the size, number and duration of clients' requests are limited.
"""
