from docstore.commands.arguments cimport Arguments
from docstore.commands.context cimport Context
