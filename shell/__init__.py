"""The `mongo` shell: V8 and the prelude in JavaScript, a blocking client of the wire protocol, the terminal."""
