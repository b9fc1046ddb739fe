package exporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/internal/rooted"
)

// DeadLettersDirectory holds the dead letters, below the directory of the queue: a
// store for each sink, which has its name.
const DeadLettersDirectory = "deadletters"

const (
	// maxChangeBytes bounds the body of a change: some hundred thousand ids.
	maxChangeBytes = 8 << 20
	// letterPage is how many letters are in memory at a time to be listed.
	letterPage = 256
)

// handleLetters adds the requests below /deadletters. All of them are private: reading a
// record takes no less than changing it.
func (e *Exporter) handleLetters(mux *http.ServeMux, private bool) {
	for pattern, handle := range map[string]privateHandler{
		"GET /deadletters":                 e.countLetters,
		"GET /deadletters/{sink}":          e.withLetters(e.listLetters),
		"GET /deadletters/{sink}/{id}":     e.withLetters(e.showLetter),
		"POST /deadletters/{sink}/redrive": e.withLetters(e.changeLetters("redrive", (*letters).redrive)),
		"POST /deadletters/{sink}/purge":   e.withLetters(e.changeLetters("purge", (*letters).purge)),
	} {
		e.handlePrivate(mux, private, pattern, handle)
	}
}

// privateHandler answers a request for what not everybody may know or do. Its error is the
// answer when it has written none.
type privateHandler func(http.ResponseWriter, *http.Request) error

// handlePrivate has handle answer the requests that come over the admin socket, whose mode
// decides who can connect.
func (e *Exporter) handlePrivate(mux *http.ServeMux, private bool, pattern string, handle privateHandler) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if !private {
			http.Error(w, "records are not served here: use "+AdminSocket+" in the directory of the queue", http.StatusForbidden)
			return
		}
		if err := handle(w, r); err != nil {
			e.refuse(w, r, err)
		}
	})
}

// requestError is a mistake in a request, with the status of the answer.
type requestError struct {
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

func (e *Exporter) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if bad, ok := errors.AsType[*requestError](err); ok {
		http.Error(w, bad.text, bad.status)
		return
	}
	e.log.Error("admin endpoint: request failed", "request", r.Method+" "+r.URL.Path, "error", err)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// lettersHandler answers a request about the dead letters of one sink. Its error is
// the answer when it has written none.
type lettersHandler func(w http.ResponseWriter, r *http.Request, l *letters) error

func (e *Exporter) withLetters(handle lettersHandler) privateHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("sink")
		l := e.letters(name)
		if l == nil {
			return &requestError{http.StatusNotFound, e.noSuchSink(name)}
		}
		return handle(w, r, l)
	}
}

// noSuchSink says that there is no sink called name, and lists those there are.
func (e *Exporter) noSuchSink(name string) string {
	var names []string
	for _, d := range e.parts().deliveries {
		names = append(names, d.cfg.Name)
	}
	slices.Sort(names)
	text := fmt.Sprintf("no sink %q is running: the running sinks are %s", name, strings.Join(names, ", "))
	if nameForm.MatchString(name) {
		if _, err := rooted.At(e.config().Queue.Directory).Join(DeadLettersDirectory, name).Lstat(); err == nil {
			text += "; this sink has dead letters: add it to the configuration again to handle them"
		}
	}
	return text
}

// countLetters answers with a deadletter.Count for each sink.
func (e *Exporter) countLetters(w http.ResponseWriter, _ *http.Request) error {
	counts := []deadletter.Count{}
	for _, d := range e.parts().deliveries {
		err := d.letters.with(func(s *deadletter.Store) error {
			counts = append(counts, s.Stats().Count(d.cfg.Name))
			return nil
		})
		if err != nil {
			return fmt.Errorf("sink %s: %w", d.cfg.Name, err)
		}
	}
	return e.answer(w, counts)
}

// listLetters answers with a deadletter.Summary for each, in one array. It reads them in
// pages, so the list is not a view of one moment.
func (e *Exporter) listLetters(w http.ResponseWriter, r *http.Request, l *letters) error {
	var after uint64
	next := func() (page []deadletter.Letter, err error) {
		err = l.with(func(s *deadletter.Store) error {
			page, err = s.Page(after, letterPage)
			return err
		})
		return page, err
	}
	page, err := next()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	answer := http.NewResponseController(w)
	separator := "["
	for len(page) > 0 {
		for _, letter := range page {
			text, err := json.Marshal(letter.Summary(r.PathValue("sink")))
			if err != nil {
				return err // a struct of texts, numbers and times always has a form
			}
			if _, err := fmt.Fprintf(w, "%s%s", separator, text); err != nil {
				panic(http.ErrAbortHandler)
			}
			separator, after = ",\n", letter.Seq
		}
		if err := answer.SetWriteDeadline(time.Now().Add(fairconn.WriteTimeout)); err != nil {
			e.log.Debug("admin endpoint: no deadline", "error", err)
		}
		if page, err = next(); err != nil {
			e.log.Error("admin endpoint: dead letters", "error", err)
			panic(http.ErrAbortHandler) // so that the part is not taken for the whole
		}
	}
	if separator == "[" {
		fmt.Fprint(w, "[")
	}
	fmt.Fprintln(w, "]")
	return nil
}

// showLetter answers with a deadletter.Summary that has the record.
func (e *Exporter) showLetter(w http.ResponseWriter, r *http.Request, l *letters) error {
	letter, found, err := l.get(r.PathValue("id"))
	if err != nil {
		return asBadID(err)
	}
	sink := r.PathValue("sink")
	if !found {
		return &requestError{http.StatusNotFound, fmt.Sprintf("sink %s has no dead letter %s", sink, r.PathValue("id"))}
	}
	text, err := letter.Summary(sink).WithRecord(letter.Record)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client has gone
	return nil
}

// changeLetters carries out a deadletter.Change, and answers with a
// deadletter.Changed.
func (e *Exporter) changeLetters(what string, change func(*letters, []uint64) (int, error)) lettersHandler {
	return func(w http.ResponseWriter, r *http.Request, l *letters) error {
		seqs, unknown, err := e.wanted(w, r, l)
		if err != nil {
			return err
		}
		changed := deadletter.Changed{Unknown: unknown}
		if changed.Count, err = change(l, seqs); err != nil {
			return err
		}
		e.log.Info("dead letters: "+what+" on request", "sink", r.PathValue("sink"), "letters", changed.Count)
		return e.answer(w, changed)
	}
}

// wanted returns the seqs that a change names, nil for all, and the ids among them
// that have no letter.
func (e *Exporter) wanted(w http.ResponseWriter, r *http.Request, l *letters) (seqs []uint64, unknown []string, err error) {
	var change deadletter.Change
	if err := readBody(w, r, &change, `{"ids":[...]} or {"all":true}`); err != nil {
		return nil, nil, err
	}
	if change.All == (len(change.IDs) > 0) {
		return nil, nil, &requestError{http.StatusBadRequest, `the body must have either ids or {"all":true}`}
	}
	if change.All {
		return nil, nil, nil
	}
	err = l.with(func(s *deadletter.Store) (err error) {
		seqs, unknown, err = s.FindAll(change)
		return err
	})
	return seqs, unknown, asBadID(err)
}

// asBadID is err, as the fault of the client where it named what is no id.
func asBadID(err error) error {
	if bad, ok := errors.AsType[*deadletter.IDError](err); ok {
		return &requestError{http.StatusBadRequest, bad.Error()}
	}
	return err
}

// readBody reads the body of a request, which has the given form.
func readBody(w http.ResponseWriter, r *http.Request, v any, form string) error {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChangeBytes))
	body.DisallowUnknownFields()
	if err := body.Decode(v); err != nil {
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			return &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes: name fewer ids at a time", maxChangeBytes)}
		}
		return &requestError{http.StatusBadRequest, "the body must be " + form + ": " + err.Error()}
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return &requestError{http.StatusBadRequest, "the body must be " + form + ", and nothing after it"}
	}
	return nil
}

// answer writes v. The request may have taken longer than an answer may, so the answer
// has a deadline of its own.
func (e *Exporter) answer(w http.ResponseWriter, v any) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fairconn.WriteTimeout)); err != nil {
		e.log.Debug("admin endpoint: no deadline", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		e.log.Debug("admin endpoint: answer not written", "error", err) // the client has gone
	}
	return nil
}
