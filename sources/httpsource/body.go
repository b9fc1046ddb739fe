package httpsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/internal/fairconn"
)

// What a body may unpack to: as much as no engine sends at once, and beyond that only
// what could still be decisions, which are seldom packed to a tenth. Gzip packs zeros to
// a thousandth. It bounds time and disk; memory is bounded by the batch.
const (
	freeBytes = 64 << 20
	maxRatio  = 100
)

// maxBody bounds a body, unpacked: more than the 400 events of kube-apiserver have if
// each is as large as etcd lets its objects be.
const maxBody = 1 << 30

// How long a client may take over a body: bodyWait for each, and at least minRate bytes
// a second beyond that. The time that docket takes itself does not count. Others may wait
// for the place of the body: bodyWait is shorter than they do.
const (
	bodyWait = 3 * time.Second
	minRate  = fairconn.MinRate
)

// What the bodies of a source may have in memory at a time, however many are sent: a
// body needs a place before it is read, and one of the few large ones before more than a
// chunk of it is in memory. The others wait.
const (
	maxSmall = 32
	maxLarge = 4
)

// places bounds the bodies that are in memory. Those who wait take turns.
type places chan struct{}

// enter waits for a place for the body that comes on c. The error is the cause of ctx.
func (p places) enter(ctx context.Context, c *fairconn.Conn) error {
	defer c.Work()() // it waits for docket meanwhile
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p places) leave() { <-p }

var errBusy = fmt.Errorf("too many bodies at once, waited %v for a place: send the body again", placeWait)

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) refusal {
	return refusal{status, fmt.Sprintf(format, args...)}
}

// body is what a request brings, unpacked.
type body struct {
	server   *server
	ctx      context.Context // of the request
	conn     *fairconn.Conn
	peer     peerKey
	wire     *wire
	unpacked io.Reader
	gzip     *gzip.Reader // nil: the body is not packed
	read     int64        // of unpacked
	events   int
	unfit    int     // of events: those that are no records
	held     int64   // of read, what may still be in memory
	isLarge  bool    // it has a place for large ones, too
	noPlace  error   // why it got none
	last     outcome // of the events that were put so far
	left     *batch  // the committer still has it; nil: it has none
}

// openBody waits for a place and returns the body of r as its Content-Encoding has it.
func (s *server) openBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	b := &body{server: s, ctx: r.Context(), conn: fairconn.Of(r), peer: peerKeyOf(identityOf(r)), wire: &wire{r: r.Body, control: http.NewResponseController(w), bodyWait: s.bodyWait}}
	b.unpacked = b.wire
	if err := b.place(s.small); err != nil {
		return nil, err
	}
	if err := b.unpack(r.Header.Get("Content-Encoding")); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// unpack undoes a Content-Encoding.
func (b *body) unpack(encoding string) error {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return refuse(http.StatusUnsupportedMediaType, "content encoding %.32q is not supported: send gzip or none", encoding)
	}
	b.gzip = b.server.gzips.Get().(*gzip.Reader)
	if err := b.gzip.Reset(b.wire); err != nil {
		return b.explain(err)
	}
	b.unpacked = b.gzip
	return nil
}

// close gives back what b was lent, once the committer has nothing of it any more.
func (b *body) close() {
	if b.gzip != nil {
		b.server.gzips.Put(b.gzip)
	}
	if b.left == nil {
		b.leave()
		return
	}
	b.server.left.Go(func() {
		<-b.left.done // it always comes
		b.leave()
	})
}

func (b *body) leave() {
	if b.isLarge {
		b.server.large.leave()
	}
	b.server.small.leave()
}

// place waits for one of p.
func (b *body) place(p places) error {
	ctx, cancel := context.WithTimeoutCause(b.ctx, placeWait, errBusy)
	defer cancel()
	b.noPlace = p.enter(ctx, b.conn)
	return b.noPlace
}

var errBomb = refuse(http.StatusRequestEntityTooLarge,
	"the body unpacks to more than %d MiB, and to more than %d times its size: send smaller bodies", freeBytes>>20, maxRatio)

var errLong = refuse(http.StatusRequestEntityTooLarge, "the body unpacks to more than %d MiB: send smaller bodies", maxBody>>20)

// Read reads what is unpacked.
func (b *body) Read(p []byte) (int, error) {
	if b.held >= chunkBytes && !b.isLarge {
		if err := b.place(b.server.large); err != nil {
			return 0, err
		}
		b.isLarge = true
	}
	n, err := b.unpacked.Read(p)
	b.read += int64(n)
	b.held += int64(n)
	if b.gzip != nil && b.read > max(b.server.freeBytes, maxRatio*b.wire.read) {
		return 0, errBomb
	}
	if b.read > maxBody {
		return 0, errLong
	}
	return n, err
}

// count notes another event. The error is a refusal: no honest engine sends so many.
func (b *body) count(isRecord bool) error {
	b.events++
	if !isRecord {
		b.unfit++
	}
	switch {
	case b.events > maxEvents:
		return refuse(http.StatusRequestEntityTooLarge, "the body has more than %d events: send smaller bodies", maxEvents)
	case b.unfit > maxUnfit:
		return refuse(http.StatusBadRequest, "the body has more than %d elements that are not JSON objects", maxUnfit)
	}
	return nil
}

// explain turns an error of reading or cutting the body into the answer.
func (b *body) explain(err error) error {
	if _, ok := errors.AsType[refusal](err); ok || b.noPlace != nil {
		return err
	}
	if fault, ok := errors.AsType[bodyError](err); ok {
		hint := ""
		if b.gzip == nil && b.wire.isGzip {
			hint = ": it is gzip: set the header Content-Encoding: gzip"
		}
		return refuse(http.StatusBadRequest, "the body %s%s", fault, hint)
	}
	switch wireErr := b.wire.err; {
	case b.conn.IsEvicted():
		return refuse(http.StatusRequestTimeout, "the body came too slowly, and others waited to connect")
	case errors.Is(wireErr, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "the body came too slowly: less than %d bytes a second after %v", minRate, b.wire.bodyWait)
	case wireErr != nil && !errors.Is(wireErr, io.EOF):
		return refuse(http.StatusBadRequest, "the body was cut off: %v", wireErr)
	}
	return refuse(http.StatusBadRequest, "the body is not valid gzip, although its Content-Encoding is gzip: %v", err)
}

// wire is a body as it comes over the network.
type wire struct {
	r        io.Reader
	control  *http.ResponseController
	bodyWait time.Duration

	read   int64
	waited time.Duration // for bytes to come
	err    error         // what the last read has returned
	isGzip bool          // it begins as gzip does
}

// Read reads within what is left of the time that the client may take.
func (w *wire) Read(p []byte) (n int, err error) {
	began := time.Now()
	left := w.bodyWait + time.Duration(w.read/minRate)*time.Second - w.waited
	if err := w.control.SetReadDeadline(began.Add(left)); err != nil {
		return 0, err
	}
	n, err = w.r.Read(p)
	if w.read == 0 && n >= 2 {
		w.isGzip = p[0] == 0x1f && p[1] == 0x8b
	}
	w.read += int64(n)
	w.waited += time.Since(began)
	w.err = err
	if errors.Is(err, io.EOF) {
		// The server goes on to read, so that it notices when the client is gone.
		if cleared := w.control.SetReadDeadline(time.Time{}); cleared != nil {
			err = cleared
		}
	}
	return n, err
}
