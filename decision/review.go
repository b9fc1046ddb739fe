package decision

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// ErrNotReview says that a request is no admission review.
var ErrNotReview = errors.New("not an admission review")

// FromReview is ReviewRecord for bodies that are at hand as a whole, be it that a webhook
// speaks another protocol than HTTP or that a test asks it.
func FromReview(request, response []byte, include ...Content) (*Record, error) {
	asked, answered := NewReviewReader(include...), NewReviewReader(include...)
	_, _ = asked.Write(request) // which never fails
	_, _ = answered.Write(response)
	return ReviewRecord(asked, answered)
}

// ReviewRecord returns the record of an admission review: of what was asked, and what was
// answered. Nothing of it is shared with the readers. The format is that of
// k8s.io/api/admission/v1/types.go.
//
// The decision is Allow or Deny as the answer has it, and Warn where a request is allowed
// with warnings. It is Error, with the reason in Failure, where the API server cannot use the
// answer, by its rules in k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go:
// what is no AdmissionReview of version v1 with a response that has the UID of the request.
// It asks for neither version nor UID in an answer to a review of v1beta1. A nil response
// stands for no answer.
//
// A request that is no AdmissionReview of the group admission.k8s.io with a UID is an
// ErrNotReview. One that names neither kind nor version is taken for v1, whose answer need not name
// them either: Go programs that make reviews themselves leave them out.
func ReviewRecord(request, response *ReviewReader) (*Record, error) {
	if err := request.checkRequest(); err != nil {
		return nil, fmt.Errorf("%w: the request %w", ErrNotReview, err)
	}
	m := reviewMaker{Record: Record{EventType: AdmissionReview, Process: Admission}}
	m.builder.Grow(request.textSize() + response.textSize())
	m.ask(request)
	if err := m.answer(request, response); err != nil {
		m.Decision, m.Failure = Error, err.Error()
	}
	return &m.Record, nil
}

// ReviewDecision returns the decision of ReviewRecord, as far as the answer and the
// beginning of the request tell: what follows there is taken for JSON that says nothing
// else. It costs little. It is empty where that does not tell, and for Error.
func ReviewDecision(request, response *ReviewReader) Decision {
	if response == nil || response.finish() != nil {
		return ""
	}
	request.catchUp(reviewHead)
	whole := bytes.HasSuffix(bytes.TrimSpace(request.came), []byte("}"))
	if request.streams {
		whole = request.finish() == nil
	}
	if !whole || !request.seen.has(reviewKind) || !request.seen.has(reviewAPIVersion) || request.checkHead() != nil ||
		response.checkResponse(request, request.raw(askedUID).String()) != nil {
		return ""
	}
	return response.decision()
}

const (
	reviewGroup = "admission.k8s.io/"
	reviewV1    = reviewGroup + "v1"
	reviewBeta  = reviewGroup + "v1beta1"
)

func (r *ReviewReader) is(slot reviewSlot, s string) bool { return string(r.raw(slot).Text()) == s }

// textSize is room for the texts of a usual review that r has kept. A value that stood
// twice must not take it as well.
func (r *ReviewReader) textSize() int {
	const usual = 2 << 10
	if r == nil {
		return 0
	}
	return min(len(r.buf)-r.content, usual)
}

// checkRequest says why r is not the request of a review.
func (r *ReviewReader) checkRequest() error {
	if err := r.finish(); err != nil {
		return err
	}
	return r.checkHead()
}

// checkHead is checkRequest of what was read.
func (r *ReviewReader) checkHead() error {
	version := r.raw(reviewAPIVersion).Text()
	switch {
	case r.state == reviewBroken:
		return r.err
	case !r.is(reviewKind, "AdmissionReview") && (r.seen.has(reviewKind) || version != nil):
		return errors.New("is of another kind")
	case !strings.HasPrefix(string(version), reviewGroup) && (r.seen.has(reviewKind) || version != nil):
		return errors.New("is of another API group")
	case len(r.raw(askedUID)) <= len(`""`):
		return errors.New("has no request with a uid")
	}
	return nil
}

// checkResponse says why the API server cannot use the answer r to asked.
func (r *ReviewReader) checkResponse(asked *ReviewReader, uid string) error {
	if err := r.finish(); err != nil {
		return err
	}
	if !r.seen.has(answeredResponse) {
		return errors.New("has no verdict: its member response is missing")
	}
	if r.omitted.has(answeredAllowed) { // by values that stand in it again and again
		return errors.New("is too large to record")
	}
	if asked.is(reviewAPIVersion, reviewBeta) {
		return nil
	}
	switch {
	case asked.seen.has(reviewAPIVersion) && !(r.is(reviewAPIVersion, reviewV1) && r.is(reviewKind, "AdmissionReview")):
		return errors.New("is not an AdmissionReview of " + reviewV1)
	case len(r.raw(answeredUID)) <= len(`""`):
		return errors.New("has no uid")
	case !r.is(answeredUID, uid):
		return errors.New("has the uid of another request")
	}
	return nil
}

// reviewMaker makes a record of the values that readers have kept.
type reviewMaker struct {
	Record
	texts
}

// ask takes what the request says.
func (m *reviewMaker) ask(r *ReviewReader) {
	resource, subresource := askedResource, askedSubresource
	if r.seen.has(askedOriginal) { // before it was converted to what the webhook wants to see
		resource, subresource = askedOriginalResource, askedOriginalSubresource
	}
	for _, text := range [...]struct {
		field *string
		slot  reviewSlot
	}{
		{&m.RequestUID, askedUID},
		{&m.ResourceGroup, askedGroup},
		{&m.ResourceAPIVersion, askedVersion},
		{&m.ResourceKind, askedKind},
		{&m.RequestResource, resource},
		{&m.RequestSubresource, subresource},
		{&m.ResourceNamespace, askedNamespace},
		{&m.ResourceName, askedName},
		{&m.Operation, askedOperation},
		{&m.RequestUsername, askedUsername},
		{&m.RequestUserUID, askedUserUID},
	} {
		*text.field = m.unquote(r.raw(text.slot))
	}
	m.ID = m.RequestUID
	m.RequestUserGroups = m.list(r.raw(askedUserGroups))
	if dryRun := r.raw(askedDryRun); dryRun != nil {
		value := dryRun[0] == 't'
		m.DryRun = &value
	}
	m.Object, m.OldObject = clone(r.raw(askedObject)), clone(r.raw(askedOldObject))
	m.omit(r.omitted)
}

// answer takes what the response says, or nothing of it and says why that cannot be used.
func (m *reviewMaker) answer(asked, r *ReviewReader) error {
	if r == nil {
		return errors.New("there is no response")
	}
	if err := r.checkResponse(asked, m.RequestUID); err != nil {
		return fmt.Errorf("the response %w", err)
	}
	m.Warnings = m.list(r.raw(answeredWarnings))
	m.Decision = r.decision()
	m.Code, _ = strconv.Atoi(string(r.raw(answeredCode))) // 0 without one
	m.Message = m.unquote(r.raw(answeredMessage))
	if m.Message == "" && m.Decision == Deny {
		m.Message = m.unquote(r.raw(answeredReason)) // as the API server tells the user
	}
	m.PatchType = m.unquote(r.raw(answeredPatchType))
	m.AuditAnnotations = m.pairs(r.raw(answeredAnnotations))
	m.omit(r.omitted)
	m.takePatch(r)
	return nil
}

// decision is that of an answer that can be used.
func (r *ReviewReader) decision() Decision {
	if allowed := r.raw(answeredAllowed); allowed == nil || allowed[0] != 't' {
		return Deny
	}
	for range rawjson.Items(r.raw(answeredWarnings)) {
		return Warn
	}
	if r.omitted.has(answeredWarnings) {
		return Warn
	}
	return Allow
}

// takePatch takes the size of the patch, and the patch itself if it was kept.
func (m *reviewMaker) takePatch(r *ReviewReader) {
	if !r.seen.has(answeredPatch) && !r.omitted.has(answeredPatch) {
		return
	}
	m.PatchBytes = r.patch.bytes()
	text := r.raw(answeredPatch).Text()
	if len(text) == 0 {
		return
	}
	patch, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || rawjson.KindOf(patch) == rawjson.Invalid {
		m.omit(1 << answeredPatch)
		return
	}
	m.Patch = patch
}

// omit names the fields whose values are not there, though they were.
func (m *reviewMaker) omit(slots slotSet) {
	if slots == 0 {
		return
	}
	for slot, field := range reviewFields {
		if field != "" && slots.has(reviewSlot(slot)) && !slices.Contains(m.Omitted, field) {
			m.Omitted = append(m.Omitted, field)
		}
	}
}

// list returns the strings of an array, null among them as "".
func (m *reviewMaker) list(array rawjson.Value) (list []string) {
	for item := range rawjson.Items(array) {
		list = append(list, m.unquote(item))
	}
	return list
}

// pairs returns the strings of an object by name, null among them as "".
func (m *reviewMaker) pairs(object rawjson.Value) (pairs map[string]string) {
	for name, value := range rawjson.Members(object) {
		if pairs == nil {
			pairs = make(map[string]string)
		}
		pairs[string(name)] = m.unquote(value)
	}
	return pairs
}

// clone returns a copy of v, nil where there is no value.
func clone(v rawjson.Value) json.RawMessage { return append(json.RawMessage(nil), v...) }
