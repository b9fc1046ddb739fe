package decision

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
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

// ErrNotReview says that a request is not an admission review.
var ErrNotReview = errors.New("not an admission review")

// FromReview is ReviewRecord for complete bodies: for a webhook that speaks another
// protocol than HTTP, or for a test.
func FromReview(request, response []byte, include ...Content) (*Record, error) {
	asked, answered := NewReviewReader(include...), NewReviewReader(include...)
	_, _ = asked.Write(request) // which never fails
	_, _ = answered.Write(response)
	return ReviewRecord(asked, answered)
}

// ReviewRecord returns the record of an admission review: of what was asked, and what was answered.
// Nothing of it is shared with the readers. k8s.io/api/admission/v1/types.go defines the format.
//
// The decision is Allow or Deny as the answer has it, and Warn where a request is allowed with
// warnings. It is Error, with the reason in Failure, where the API server cannot use the answer.
// The rules are in k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go: an
// answer must be an AdmissionReview of version v1 with a response that has the UID of the request.
// It asks for neither version nor UID in an answer to a review of v1beta1. A nil response stands
// for no answer.
//
// The error is ErrNotReview if the request is not an AdmissionReview of the group admission.k8s.io
// with a UID. A request that names neither kind nor version is taken for v1, and its answer need
// not name them either: Go programs that make reviews themselves leave them out.
func ReviewRecord(request, response *ReviewReader) (*Record, error) {
	if err := request.checkRequest(); err != nil {
		return nil, fmt.Errorf("%w: the request %w", ErrNotReview, err)
	}
	asked := &request.asked
	r := asked.Record
	r.ID, r.EventType, r.Process = r.RequestUID, AdmissionReview, Admission
	if asked.converted {
		r.RequestResource, r.RequestSubresource = asked.original, asked.originalSub
	}
	omitted := request.omitted
	if err := response.checkResponse(request); err != nil {
		r.Decision, r.Failure = Error, fmt.Sprintf("the response %v", err)
		if response == nil {
			r.Failure = "there is no response"
		}
	} else {
		response.answer(&r)
		omitted |= response.omitted
	}
	r.Omitted = append(omitted.fields(), r.Omitted...)
	return &r, nil
}

// ReviewDecision returns the decision of ReviewRecord from the answer and the beginning
// of the request. It costs little, because it takes the rest of the request for JSON
// that changes nothing. The decision is empty if the beginning does not tell, and for
// Error.
func ReviewDecision(request, response *ReviewReader) Decision {
	request.catchUp(reviewHead)
	whole := bytes.HasSuffix(bytes.TrimSpace(request.came), []byte("}"))
	if request.streams {
		whole = request.finish() == nil
	}
	if !whole || request.kind == "" || request.apiVersion == "" || request.checkHead() != nil || response.checkResponse(request) != nil {
		return ""
	}
	return response.answered.decision()
}

const (
	reviewGroup = "admission.k8s.io/"
	reviewV1    = reviewGroup + "v1"
	reviewBeta  = reviewGroup + "v1beta1"
)

// checkRequest says why r is not the request of a review.
func (r *ReviewReader) checkRequest() error {
	if err := r.finish(); err != nil {
		return err
	}
	return r.checkHead()
}

// checkHead is checkRequest of what was read.
func (r *ReviewReader) checkHead() error {
	typed := r.kind != "" || r.apiVersion != ""
	switch {
	case r.state == reviewBroken:
		return r.err
	case typed && r.kind != "AdmissionReview":
		return errors.New("is of another kind")
	case typed && !strings.HasPrefix(r.apiVersion, reviewGroup):
		return errors.New("is of another API group")
	case r.asked.RequestUID == "":
		return errors.New("has no request with a uid")
	}
	return nil
}

// checkResponse says why the API server cannot use the answer r to asked.
func (r *ReviewReader) checkResponse(asked *ReviewReader) error {
	if r == nil {
		return errors.New("is missing")
	}
	if err := r.finish(); err != nil {
		return err
	}
	switch {
	case !r.answered.given:
		return errors.New("has no verdict: its member response is missing")
	case r.answered.unclear:
		return errors.New("is too large to record")
	case asked.apiVersion == reviewBeta:
		return nil
	case asked.apiVersion != "" && !(r.apiVersion == reviewV1 && r.kind == "AdmissionReview"):
		return errors.New("is not an AdmissionReview of " + reviewV1)
	case r.answered.uid == "":
		return errors.New("has no uid")
	case r.answered.uid != asked.asked.RequestUID:
		return errors.New("has the uid of another request")
	}
	return nil
}

// answer takes what the answer says.
func (r *ReviewReader) answer(to *Record) {
	a := &r.answered
	to.Decision = a.decision()
	to.Code, to.Message, to.Warnings, to.AuditAnnotations = a.Code, a.Message, a.Warnings, a.AuditAnnotations
	if to.Message == "" && to.Decision == Deny {
		to.Message = a.reason // as the API server tells the user
	}
	to.PatchType, to.PatchBytes = a.PatchType, a.PatchBytes
	if len(a.patch) == 0 {
		return
	}
	patch, err := base64.StdEncoding.AppendDecode(nil, a.patch)
	if err != nil || rawjson.KindOf(patch) == rawjson.Invalid {
		to.Omitted = []string{"patch"}
		return
	}
	to.Patch = patch
}

// decision is that of an answer that can be used.
func (a *reviewResponse) decision() Decision {
	switch {
	case !a.allowed:
		return Deny
	case a.warned:
		return Warn
	}
	return Allow
}

// fields names those of a record whose values are not there, though they were.
func (s partSet) fields() (list []string) {
	for i, part := range reviewParts {
		if s>>i&1 != 0 && part.field != "" && !slices.Contains(list, part.field) {
			list = append(list, part.field)
		}
	}
	return list
}
