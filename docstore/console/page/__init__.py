"""The files for the browser: markup, style and JavaScript modules, which use the server's commands alone."""
