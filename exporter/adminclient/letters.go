package adminclient

import (
	"context"
	"encoding/json"
	"io"

	"github.com/docket-export/docket/exporter/deadletter"
)

// LetterChange is what can be done to dead letters, in the words of the admin endpoint.
type LetterChange string

// The changes.
const (
	Redrive LetterChange = "redrive"
	Purge   LetterChange = "purge"
)

// LetterCounts returns the counts of every sink.
func (c *Client) LetterCounts(ctx context.Context) (counts []deadletter.Count, err error) {
	err = c.GetJSON(ctx, lettersPath(), nil, &counts)
	return counts, err
}

// ListLetters calls each with the letters of a sink, in the order of seq. It decodes one letter
// after the other: there may be very many.
func (c *Client) ListLetters(ctx context.Context, sink string, each func(deadletter.Summary) error) error {
	res, err := c.Get(ctx, lettersPath(sink), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	d := json.NewDecoder(res.Body)
	if _, err := d.Token(); err != nil {
		return c.Unreadable(err)
	}
	for d.More() {
		var s deadletter.Summary
		if err := d.Decode(&s); err != nil {
			return c.Unreadable(err)
		}
		if err := each(s); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return c.Unreadable(err)
	}
	return nil
}

// ShowLetter returns a letter and its record.
func (c *Client) ShowLetter(ctx context.Context, sink, id string) (s deadletter.Summary, record []byte, err error) {
	res, err := c.Get(ctx, lettersPath(sink, id), nil)
	if err != nil {
		return s, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		s, record, err = deadletter.ParseWithRecord(text)
	}
	if err != nil {
		err = c.Unreadable(err)
	}
	return s, record, err
}

// ChangeLetters redrives or purges letters.
func (c *Client) ChangeLetters(ctx context.Context, sink string, what LetterChange, which deadletter.Change) (changed deadletter.Changed, err error) {
	err = c.PostJSON(ctx, lettersPath(sink, string(what)), which, &changed)
	return changed, err
}

// lettersPath is what is asked for below /deadletters.
func lettersPath(parts ...string) string { return "/deadletters" + Path(parts...) }
