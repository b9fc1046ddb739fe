// Package adminclient is a client of a running docket, over its admin socket or its
// admin address.
package adminclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
)

const (
	// answerTimeout bounds the wait for an answer to begin: a change of dead letters may
	// write hundreds of megabytes anew first.
	answerTimeout = 5 * time.Minute
	// dialTimeout bounds the wait for a connection on this machine.
	dialTimeout = 5 * time.Second
	// maxDocument bounds a document: a status has a few hundred bytes a sink, and a change names
	// some hundred thousand dead letters.
	maxDocument = 16 << 20
	// maxRefusal bounds what is read of an answer that is an error.
	maxRefusal = 4 << 10
)

// ErrNotRunning says that nothing listens at docket's socket or address.
var ErrNotRunning = errors.New("docket does not run: start it with docket run")

// RefusedError is an answer other than 200 OK, in docket's words.
type RefusedError struct {
	Status int // of HTTP
	Text   string
}

func (e *RefusedError) Error() string { return e.Text }

// Client sends requests to one docket, which may stop and start: each request makes a
// new connection. It uses no proxy, because docket is on this machine. Safe for
// concurrent use.
type Client struct {
	http    *http.Client
	socket  string // empty: none is asked
	address string // asked where nobody answers at socket; empty: none is
}

// ForQueue returns a client of the docket that runs on the queue in directory, over its
// admin socket.
func ForQueue(directory string) *Client { return ForEither(directory, "") }

// ForAddress returns a client of the docket at the address of its admin endpoint, where docket
// answers only public requests.
func ForAddress(address string) *Client { return newClient("", address) }

// ForEither returns a client that uses the admin socket of the queue in directory or, if
// nobody answers there, address.
func ForEither(directory, address string) *Client {
	return newClient(filepath.Join(directory, exporter.AdminSocket), address)
}

func newClient(socket, address string) *Client {
	c := &Client{socket: socket, address: address}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
			DisableKeepAlives:     true,
			ResponseHeaderTimeout: answerTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // docket has none
	}
	return c
}

// Where names the socket, the address or both, for messages.
func (c *Client) Where() string {
	switch {
	case c.socket == "":
		return c.address
	case c.address == "":
		return c.socket
	}
	return c.socket + " and " + c.address
}

// Reach connects once: nil means that somebody listens, an error says why
// nobody can be reached.
func (c *Client) Reach(ctx context.Context) error {
	nc, err := c.dial(ctx)
	if err != nil {
		return c.unreached(err)
	}
	return nc.Close()
}

func (c *Client) dial(ctx context.Context) (nc net.Conn, err error) {
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.socket != "" {
		nc, err = d.DialContext(ctx, "unix", c.socket)
		if errors.Is(err, syscall.EINVAL) {
			err = fmt.Errorf("%s: the path is too long for a socket", c.socket)
		}
	}
	if c.socket != "" && err == nil || c.address == "" {
		return nc, err
	}
	nc, atAddress := d.DialContext(ctx, "tcp", c.address)
	if atAddress != nil && (err == nil || !errors.Is(err, fs.ErrPermission)) {
		err = atAddress // of the two failures that of the socket says more only where docket may be behind it
	}
	if atAddress == nil {
		err = nil
	}
	return nc, err
}

// unreached is the failure to connect, in words.
func (c *Client) unreached(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("admin socket %s: %w: only the user that docket runs as may use it", c.socket, err)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nothing listens at %s: %w", c.Where(), ErrNotRunning)
	}
	return fmt.Errorf("ask docket at %s: %w", c.Where(), err)
}

// Path is the path of a request: parts may hold any characters.
func Path(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}

// Get requests path. Its error is ErrNotRunning, a *RefusedError when the answer is not
// 200 OK, or the error of the connection. The caller closes the body of the answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.ask(ctx, http.MethodGet, path, nil)
}

// Post is Get for a POST request with body as JSON.
func (c *Client) Post(ctx context.Context, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, http.MethodPost, path, text)
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	host := c.address // docket's address answers to its own name alone
	if host == "" {
		host = "docket"
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("admin endpoint %q: %w", c.Where(), err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what came of it will do
	return nil, c.refusal(res.StatusCode, strings.TrimSpace(human.OneLine(string(text))))
}

func (c *Client) refusal(status int, text string) error {
	if text == "" || strings.Contains(text, "404 page not found") {
		text = fmt.Sprintf("%s answered %d %s: check that this is docket's admin endpoint", c.Where(), status, http.StatusText(status))
	}
	return &RefusedError{Status: status, Text: text}
}

// MalformedError says that docket does not give such an answer: asking again does not
// help.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return e.Err.Error() }

func (e *MalformedError) Unwrap() error { return e.Err }

// Unreadable returns err as a failure to read an answer.
func (c *Client) Unreadable(err error) error {
	return fmt.Errorf("read the answer of docket at %s: %w", c.Where(), err)
}

// GetJSON reads the answer to Get into v.
func (c *Client) GetJSON(ctx context.Context, path string, query url.Values, v any) error {
	res, err := c.Get(ctx, path, query)
	return c.decode(res, err, v)
}

// PostJSON reads the answer to Post into v.
func (c *Client) PostJSON(ctx context.Context, path string, body, v any) error {
	res, err := c.Post(ctx, path, body)
	return c.decode(res, err, v)
}

func (c *Client) decode(res *http.Response, err error, v any) error {
	if err != nil {
		return err
	}
	defer res.Body.Close()
	document, err := c.document(res)
	if err == nil {
		if err = json.Unmarshal(document, v); err != nil {
			err = c.Unreadable(err)
		}
	}
	return err
}

// document is the body of res.
func (c *Client) document(res *http.Response) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return nil, c.Unreadable(err)
	}
	if len(document) > maxDocument {
		return nil, fmt.Errorf("%s answered more than %d bytes: this is not docket's admin endpoint", c.Where(), maxDocument)
	}
	return document, nil
}

// Status reads /status. It also returns the document, even when the document cannot be
// parsed.
func (c *Client) Status(ctx context.Context) (s exporter.Status, document []byte, err error) {
	res, err := c.Get(ctx, "/status", nil)
	if err != nil {
		return s, nil, err
	}
	defer res.Body.Close()
	if document, err = c.document(res); err != nil {
		return s, nil, err
	}
	if err := json.Unmarshal(document, &s); err != nil {
		return s, document, fmt.Errorf("the server at %s is not docket: %w", c.Where(), err)
	}
	return s, document, nil
}
