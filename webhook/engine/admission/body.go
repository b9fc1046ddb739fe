package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
)

// maxBody bounds a review: two objects of the 3 MiB that the API server takes, and what JSON adds to them.
const maxBody = 10 << 20

// maxBodies bounds the reviews that are under way. What is made of one takes some ten times as much memory.
const maxBodies = 32 << 20

// memory is what the bodies of all reviews may have. A body has a part of first, whatever its length is said to be, and when
// more than that has arrived, all it may have of rest. So small reviews wait for no large ones, and what waits for rest holds
// none of it: no two can wait for each other.
type memory struct{ first, rest *semaphore.Weighted }

func newMemory() memory {
	return memory{semaphore.NewWeighted(maxBodies / 2), semaphore.NewWeighted(maxBodies / 2)}
}

// firstPart is the most that a body has of memory.first. Most reviews have less.
const firstPart = 64 << 10

// body is that of one review.
type body struct {
	memory
	heldFirst, heldRest int64
}

func (b *body) release() {
	b.first.Release(b.heldFirst)
	b.rest.Release(b.heldRest)
}

// read returns the request of the review that r carries, or the status of HTTP that says why there is none, but for errBusy, whose
// answer is its own.
func (b *body) read(ctx context.Context, w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: want POST", r.Method)
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: want application/json", kind)
	}
	most := int64(maxBody)
	if r.ContentLength >= 0 {
		most = min(most, r.ContentLength)
	}
	text, err := b.readAll(ctx, http.MaxBytesReader(w, r.Body, maxBody), most)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	req, err := decode(text)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	return req, 0, nil
}

// readAll reads a body of at most most bytes.
func (b *body) readAll(ctx context.Context, from io.Reader, most int64) ([]byte, error) {
	if err := b.first.Acquire(ctx, min(most, firstPart)); err != nil {
		return nil, errBusy
	}
	b.heldFirst = min(most, firstPart)
	var text bytes.Buffer
	_, err := io.CopyN(&text, from, b.heldFirst+1) // with one more it meets the end, or that there is none
	if errors.Is(err, io.EOF) {
		return text.Bytes(), nil
	}
	if err != nil {
		return nil, err
	}
	if err := b.rest.Acquire(ctx, most-b.heldFirst); err != nil {
		return nil, errBusy
	}
	b.heldRest = most - b.heldFirst
	_, err = text.ReadFrom(from)
	return text.Bytes(), err
}
