from docstore.commands.arguments cimport Arguments
from docstore.commands.client_connection cimport ClientConnection
from docstore.commands.context cimport Context
