"""What every storage engine must do, run over each of them; random work in lockstep; power loss."""
