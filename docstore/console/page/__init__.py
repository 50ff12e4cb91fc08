"""What the browser gets: markup, style and modules of JavaScript, which ask the server by commands alone."""
