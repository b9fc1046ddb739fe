//go:build !race

package redact_test

// raceEnabled is 1 when the tests run with the race detector.
const raceEnabled = 0
