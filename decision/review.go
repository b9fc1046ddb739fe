package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Content is a part of an admission review that may hold secrets. A record has it only
// where it is asked for.
type Content string

// The contents.
const (
	ContentObject    Content = "object"
	ContentOldObject Content = "oldObject"
	ContentPatch     Content = "patch"
)

// ErrNotReview says that a request is no admission review, or one that cannot be
// recorded.
var ErrNotReview = errors.New("not an admission review")

// ReviewReader takes one half of an admission review, its request or its response, in
// pieces and as they pass, and keeps what a record needs.
type ReviewReader struct {
	include []Content
	text    []byte
}

// NewReviewReader returns a reader that keeps the contents of include as well.
func NewReviewReader(include ...Content) *ReviewReader { return &ReviewReader{include: include} }

// Reset makes r as new, for another half with the same contents.
func (r *ReviewReader) Reset() { r.text = r.text[:0] }

// Write takes the next piece. It never fails, and does not keep p.
func (r *ReviewReader) Write(p []byte) (int, error) {
	r.text = append(r.text, p...)
	return len(p), nil
}

// FromReview is ReviewRecord for bodies that are at hand as a whole.
func FromReview(request, response []byte, include ...Content) (*Record, error) {
	req, resp := NewReviewReader(include...), NewReviewReader(include...)
	_, _ = req.Write(request)
	_, _ = resp.Write(response)
	return ReviewRecord(req, resp)
}

// ReviewRecord returns the record of an admission review: of what was asked, and what was
// answered. A nil response stands for no answer. The error is an ErrNotReview: the request
// is none. An answer that the API server cannot use is no error, but a record of decision
// Error with its Failure.
func ReviewRecord(request, response *ReviewReader) (*Record, error) {
	var q struct {
		Request *reviewRequest
	}
	if err := json.Unmarshal(request.text, &q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReview, err)
	}
	if q.Request == nil || q.Request.UID == "" {
		return nil, fmt.Errorf("%w: it has no request with a uid", ErrNotReview)
	}
	r := q.Request.record(request.include)
	if err := r.answer(response); err != nil {
		r.Decision, r.Failure = Error, err.Error()
	}
	return r, nil
}

type reviewRequest struct {
	UID                             string
	Kind                            struct{ Group, Version, Kind string }
	Resource                        struct{ Resource string }
	RequestResource                 *struct{ Resource string }
	SubResource, RequestSubResource string
	Name, Namespace, Operation      string
	UserInfo                        struct {
		Username, UID string
		Groups        []string
	}
	DryRun            *bool
	Object, OldObject json.RawMessage
}

func (q *reviewRequest) record(include []Content) *Record {
	r := &Record{
		ID: q.UID, RequestUID: q.UID, EventType: AdmissionReview, Process: Admission,
		ResourceGroup: q.Kind.Group, ResourceAPIVersion: q.Kind.Version, ResourceKind: q.Kind.Kind,
		ResourceNamespace: q.Namespace, ResourceName: q.Name, Operation: q.Operation,
		RequestResource: q.Resource.Resource, RequestSubresource: q.SubResource,
		RequestUsername: q.UserInfo.Username, RequestUserUID: q.UserInfo.UID, RequestUserGroups: q.UserInfo.Groups, DryRun: q.DryRun,
	}
	if q.RequestResource != nil {
		r.RequestResource, r.RequestSubresource = q.RequestResource.Resource, q.RequestSubResource
	}
	if slices.Contains(include, ContentObject) {
		r.Object = q.Object
	}
	if slices.Contains(include, ContentOldObject) {
		r.OldObject = q.OldObject
	}
	return r
}

func (r *Record) answer(response *ReviewReader) error {
	if response == nil || len(response.text) == 0 {
		return errors.New("the response is empty")
	}
	var p struct {
		Response *struct {
			UID     string
			Allowed bool
			Status  struct {
				Code    int
				Message string
			}
			Warnings         []string
			AuditAnnotations map[string]string
			PatchType        string
			Patch            []byte
		}
	}
	if err := json.Unmarshal(response.text, &p); err != nil {
		return errors.New("the response is not JSON")
	}
	switch {
	case p.Response == nil:
		return errors.New("the response has no verdict")
	case p.Response.UID != r.RequestUID:
		return errors.New("the response is for another request")
	}
	a := p.Response
	r.Code, r.Message, r.Warnings, r.AuditAnnotations = a.Status.Code, a.Status.Message, a.Warnings, a.AuditAnnotations
	r.PatchType, r.PatchBytes = a.PatchType, len(a.Patch)
	if slices.Contains(response.include, ContentPatch) && len(a.Patch) > 0 {
		r.Patch = a.Patch
	}
	switch {
	case !a.Allowed:
		r.Decision = Deny
	case len(a.Warnings) > 0:
		r.Decision = Warn
	default:
		r.Decision = Allow
	}
	return nil
}
