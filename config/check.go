package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Required returns an error with text when value is empty.
func Required[T comparable](value T, text string) error {
	var none T
	if value == none {
		return errors.New(text)
	}
	return nil
}

// AtLeast returns an error when n is below least.
func AtLeast[N ~int | ~int64](n N, least int) error {
	if int64(n) < int64(least) {
		return fmt.Errorf("must be at least %d", least)
	}
	return nil
}

// Between returns an error when n is below least or above most.
func Between(n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("must be between %d and %d", least, most)
	}
	return nil
}

// Positive returns an error unless n is more than 0.
func Positive[N ~int | ~int64](n N) error {
	if n <= 0 {
		return errors.New("must be positive")
	}
	return nil
}

// NotNegative returns an error when n is below 0.
func NotNegative[N ~int | ~int64](n N) error {
	if n < 0 {
		return errors.New("must not be negative")
	}
	return nil
}

// Each returns the errors of check as problems of the items of the list at path.
func Each[S ~string](path string, list []S, check func(S) error) Problems {
	var p Problems
	for i, item := range list {
		p.Check(join(path, indexPath(i)), check(item))
	}
	return p
}

// Choice returns an error that names the known values when value is not one of them.
func Choice[S ~string](value S, known ...S) error {
	if slices.Contains(known, value) {
		return nil
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	text := "must be " + words[0]
	if n := len(words) - 1; n > 0 {
		text = "must be " + strings.Join(words[:n], ", ") + " or " + words[n]
	}
	if value == "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s, not %q", text, shorten(string(value)))
}

// HostPort checks an address to listen on or to connect to: "127.0.0.1:9464",
// "kafka-0:9092", ":7443", "[::1]:80". The host may be empty; port 0, which lets
// the system choose, is allowed. Nothing is resolved.
func HostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, "/@ \t") {
		return errors.New("must be host:port such as 127.0.0.1:9464, with an IPv6 host in brackets")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must end in a port, a number up to 65535")
	}
	return nil
}

// Loopback reports whether address, which HostPort has accepted, is written as one that
// only this machine can reach: a loopback IP address or localhost. Nothing is resolved,
// so another name is not loopback, wherever it leads.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
