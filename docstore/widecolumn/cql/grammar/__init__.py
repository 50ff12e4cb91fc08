"""The grammar of CQL, as far as it is supported: one function for each rule, over a `scanner`.

`terms` (names, literals, markers, calls), `select`, `modifications`, `definitions`, `describe`. Words are keywords
only where the grammar expects them. A function parses its rule from the scanner's position and leaves the scanner
after the rule's last token. A text that does not fit is a syntax error at the token that no rule expects.
"""
