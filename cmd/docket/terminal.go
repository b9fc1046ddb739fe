package main

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether w is a terminal, and so a person reads it.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
