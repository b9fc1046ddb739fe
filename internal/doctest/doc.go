// Package doctest holds what the pages under docs say of this repository to what is
// there.
package doctest
