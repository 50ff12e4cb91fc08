"""Users' JavaScript: V8 isolates in worker processes, the pool of those, and the values that go to and fro.

`workers` is the server's side of a worker process, `worker` what runs in it; `runtime` is the JavaScript that both the
workers and the shell load. `script_thread` and `scripts` let a filter or an expression call a user's function.
"""
