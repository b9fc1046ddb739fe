// Package importtest holds the test that imports go one way. It has no code of
// its own: the rules are in its test, and again in .golangci.yml, which says so
// sooner but sees only one file at a time.
package importtest
