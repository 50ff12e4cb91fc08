"""Applications as their users write them, with stock clients and frameworks that know nothing of this project: those of
Python in `python`, those of Node.js in `node`. `scripts/applications` installs what they need."""
