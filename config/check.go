package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

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
		return errors.New(notHostPort)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must end in a port, a number up to 65535")
	}
	return nil
}

// Forms of addresses, as far as a schema can tell them.
var (
	HostPortShape = Matching(`([^:/@ \t]*|\[[^\]/@ \t]*\]):[0-9]{1,5}`).Says(notHostPort)
	LoopbackShape = Matching(`(localhost|127\.[0-9.]+|\[::1\]):[0-9]{1,5}`).Says("must be a loopback address such as 127.0.0.1:9464")
	PortShape     = Matching(`.*:0*[1-9][0-9]*`) // one that is not 0
)

const notHostPort = "must be host:port such as 127.0.0.1:9464, with an IPv6 host in brackets"

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
