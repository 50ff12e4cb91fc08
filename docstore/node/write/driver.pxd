from docstore.commands.context cimport Context
