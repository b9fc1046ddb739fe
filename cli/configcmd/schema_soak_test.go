//go:build soak

package configcmd

import "testing"

// TestSchemaTakesAllThatCheckTakes: with every change of every good file.
func TestSchemaTakesAllThatCheckTakes(t *testing.T) { takeWhatCheckTakes(t, 1) }
