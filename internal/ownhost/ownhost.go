// Package ownhost tells requests of programs to an HTTP endpoint of docket from requests
// that a page in a browser can cause. A page can make its own name lead to a loopback
// address, and can post a form to any address without asking.
package ownhost

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/docket-export/docket/config"
)

// Error says why a request is refused, and the status to answer with.
type Error struct {
	Status int
	text   string
}

func (e *Error) Error() string { return e.text }

// Check returns an *Error for a request whose Host is not a loopback address.
func Check(r *http.Request) error {
	host := r.Host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	if !config.Loopback(host) {
		return &Error{http.StatusMisdirectedRequest, fmt.Sprintf("docket listens on a loopback address here, and %.128q is not one: use 127.0.0.1 or localhost", r.Host)}
	}
	return nil
}

// CheckPage returns an *Error for a request whose headers say that a page of another origin
// caused it. Only browsers send these headers, and no page can change them.
func CheckPage(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if foreign := site != "" && site != "same-origin" && site != "none"; foreign || !isOwnOrigin(r) {
		return &Error{http.StatusForbidden, "refused: the request comes from a page of another origin"}
	}
	return nil
}

// isOwnOrigin reports whether r comes from no page, or from one of this endpoint.
func isOwnOrigin(r *http.Request) bool {
	origins, has := r.Header["Origin"]
	if !has {
		return true
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	own := url.URL{Scheme: scheme, Host: r.Host}
	return len(origins) == 1 && strings.EqualFold(origins[0], own.String())
}
