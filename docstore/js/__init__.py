"""Users' JavaScript: V8 isolates in worker processes, the pool of workers, and the values exchanged with them.

`workers` is the server's side of a worker process, `worker` runs in it; `runtime` is the JavaScript that both the
workers and the shell load. `script_thread` and `scripts` let a filter or an expression call a user's function.
"""
