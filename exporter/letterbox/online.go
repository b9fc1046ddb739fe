package letterbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/internal/rooted"
)

const (
	// changeTimeout bounds the wait for an answer: a change may write hundreds of
	// megabytes of letters anew first.
	changeTimeout = 5 * time.Minute
	// maxRefusal bounds what is read of an answer that is an error.
	maxRefusal = 4 << 10
)

// onlineBox asks a running docket.
type onlineBox struct {
	client    *http.Client
	base      string // of the URLs
	where     string // for messages
	token     string // empty over the socket
	directory string // of the queue; empty when it is not known
}

// newSocketBox asks over the admin socket of the queue in directory.
func newSocketBox(socket, directory string) *onlineBox {
	return newOnlineBox(onlineBox{base: "http://docket", where: socket, directory: directory}, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})
}

// NewAddress asks over the admin address.
func NewAddress(address, token string) Box {
	return newOnlineBox(onlineBox{base: "http://" + address, where: address, token: token}, new(net.Dialer).DialContext)
}

// newOnlineBox fills in the client of b. It asks no proxy: docket is on this machine.
func newOnlineBox(b onlineBox, dial func(ctx context.Context, network, address string) (net.Conn, error)) *onlineBox {
	b.client = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: changeTimeout}}
	return &b
}

func (b *onlineBox) Running() bool { return true }

func (b *onlineBox) Close() error { return nil }

// Hint tells of letters that a running docket knows nothing of.
func (b *onlineBox) Hint(sink string) string {
	if b.directory == "" || sink != filepath.Base(sink) {
		return ""
	}
	if _, err := rooted.At(b.directory).Join(exporter.DeadLettersDirectory, sink).Lstat(); err != nil {
		return ""
	}
	return "; there are dead letters of a sink of this name, which docket does not run: they can be handled while docket is stopped"
}

func (b *onlineBox) Counts(ctx context.Context) (counts []deadletter.Count, err error) {
	err = b.ask(ctx, http.MethodGet, nil, func(r io.Reader) error { return json.NewDecoder(r).Decode(&counts) })
	return counts, err
}

// List decodes one letter after the other: there may be very many.
func (b *onlineBox) List(ctx context.Context, sink string, each func(deadletter.Summary) error) error {
	return b.ask(ctx, http.MethodGet, nil, func(r io.Reader) error {
		d := json.NewDecoder(r)
		if _, err := d.Token(); err != nil {
			return err
		}
		for d.More() {
			var s deadletter.Summary
			if err := d.Decode(&s); err != nil {
				return err
			}
			if err := each(s); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	}, sink)
}

func (b *onlineBox) Show(ctx context.Context, sink, id string) (s deadletter.Summary, record []byte, err error) {
	err = b.ask(ctx, http.MethodGet, nil, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		s, record, err = deadletter.ParseWithRecord(text)
		return err
	}, sink, id)
	return s, record, err
}

func (b *onlineBox) Change(ctx context.Context, sink string, what Change, c deadletter.Change) (changed deadletter.Changed, err error) {
	body, err := json.Marshal(c)
	if err != nil {
		return changed, err
	}
	err = b.ask(ctx, http.MethodPost, body, func(r io.Reader) error { return json.NewDecoder(r).Decode(&changed) }, sink, string(what))
	return changed, err
}

// ask makes a request for what is below /deadletters and calls read with the answer.
func (b *onlineBox) ask(ctx context.Context, method string, body []byte, read func(io.Reader) error, path ...string) error {
	place := b.base + "/deadletters"
	for _, part := range path {
		place += "/" + url.PathEscape(part)
	}
	req, err := http.NewRequestWithContext(ctx, method, place, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("admin endpoint %q: %w", b.where, err)
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := b.client.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: is docket running?", b.where)
	}
	if err != nil {
		return fmt.Errorf("ask docket at %s: %w", b.where, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		return refusal(b.where, res.StatusCode, strings.TrimSpace(human.OneLine(string(text))))
	}
	if err := read(res.Body); err != nil {
		return fmt.Errorf("read the answer of docket at %s: %w", b.where, err)
	}
	return nil
}

// refusal is what an answer says that is no success.
func refusal(where string, status int, text string) error {
	switch {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("docket at %s does not take the token: give the file that its admin.tokenFile names with --token-file", where)
	case text == "" || strings.Contains(text, "404 page not found"):
		return fmt.Errorf("%s answers %d %s: is it docket's admin endpoint?", where, status, http.StatusText(status))
	}
	return errors.New(text)
}
