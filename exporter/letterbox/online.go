package letterbox

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/rooted"
)

// onlineBox asks a running docket.
type onlineBox struct {
	client    *adminclient.Client
	directory string // of the queue; empty when it is not known
}

// Online returns the Box of the docket that client reaches.
func Online(client *adminclient.Client) Box { return &onlineBox{client: client} }

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
	return "; this sink has dead letters but does not run: stop docket to handle them"
}

func (b *onlineBox) Counts(ctx context.Context) (counts []deadletter.Count, err error) {
	err = b.client.GetJSON(ctx, pathOf(), nil, &counts)
	return counts, err
}

// List decodes one letter after the other: there may be very many.
func (b *onlineBox) List(ctx context.Context, sink string, each func(deadletter.Summary) error) error {
	res, err := b.client.Get(ctx, pathOf(sink), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	d := json.NewDecoder(res.Body)
	if _, err := d.Token(); err != nil {
		return b.client.Unreadable(err)
	}
	for d.More() {
		var s deadletter.Summary
		if err := d.Decode(&s); err != nil {
			return b.client.Unreadable(err)
		}
		if err := each(s); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return b.client.Unreadable(err)
	}
	return nil
}

func (b *onlineBox) Show(ctx context.Context, sink, id string) (s deadletter.Summary, record []byte, err error) {
	res, err := b.client.Get(ctx, pathOf(sink, id), nil)
	if err != nil {
		return s, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		s, record, err = deadletter.ParseWithRecord(text)
	}
	if err != nil {
		err = b.client.Unreadable(err)
	}
	return s, record, err
}

func (b *onlineBox) Change(ctx context.Context, sink string, what Change, c deadletter.Change) (changed deadletter.Changed, err error) {
	err = b.client.PostJSON(ctx, pathOf(sink, string(what)), c, &changed)
	return changed, err
}

// pathOf is what is asked for below /deadletters.
func pathOf(parts ...string) string { return "/deadletters" + adminclient.Path(parts...) }
