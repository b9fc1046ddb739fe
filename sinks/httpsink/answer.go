package httpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

const (
	// An answer is read to its end, so that its connection can be used again, but
	// only this far, or as far as the encoding wants to see: a larger answer costs
	// the connection, not the memory.
	maxAnswer = 64 << 10
	// An answer that trickles must not hold up the next batch, unless what it says
	// of the records is still to come.
	drainTime = time.Second
)

// answer is what the receiver said to one request.
type answer struct {
	res     *http.Response // its body is closed
	body    []byte         // decompressed
	cut     error          // why body is not the whole answer, such as errTooLong; nil when it is
	secrets []string       // that were in the request, and must not be quoted
	whole   bool           // the only reader of the request's body has read it to its end
}

// readAnswer reads at most limit bytes of the answer, and that much again of
// compressed ones. It calls abort, which ends the exchange, when that takes
// longer than wait.
func readAnswer(res *http.Response, limit int, wait time.Duration, abort context.CancelFunc) *answer {
	timer := time.AfterFunc(wait, abort)
	defer timer.Stop()
	defer res.Body.Close()
	a := &answer{res: res}
	wire := io.LimitReader(res.Body, int64(limit)+1)
	switch coding := res.Header.Get("Content-Encoding"); strings.ToLower(coding) {
	case "", "identity":
		a.body, a.cut = readBounded(wire, limit)
	case "gzip", "x-gzip":
		plain, err := gzip.NewReader(wire)
		if err != nil {
			a.cut = err
			break
		}
		a.body, a.cut = readBounded(plain, limit)
	default:
		a.cut = errors.New("it has a Content-Encoding that docket did not request")
	}
	_, _ = io.Copy(io.Discard, wire) // for the sake of the connection; the status has been read
	return a
}

var errTooLong = errors.New("it is too long")

// readBounded reads r to its end, or limit bytes and errTooLong.
func readBounded(r io.Reader, limit int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if len(body) > limit {
		return body[:limit], fmt.Errorf("%w, more than %s", errTooLong, config.Size(limit))
	}
	return body, err
}

// quoted returns what makes one printable line without secrets of a text.
func quoted(secrets []string) encoding.Quote {
	redactor := newRedactor(secrets)
	return func(text string) string { return sinks.AnswerText(redactor.Replace(text)) }
}

// contains reports whether body holds one of phrases.
func contains(body []byte, phrases ...string) bool {
	for _, phrase := range phrases {
		if bytes.Contains(body, []byte(phrase)) {
			return true
		}
	}
	return false
}
