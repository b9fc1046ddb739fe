//go:build race

package dockettest

// raceEnabled is whether the tests run with the race detector.
const raceEnabled = true
