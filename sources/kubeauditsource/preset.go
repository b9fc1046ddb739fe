package kubeauditsource

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// Preset says which events are stored.
type Preset string

// The choices of preset.
const (
	All                Preset = "All"
	AdmissionDecisions Preset = "AdmissionDecisions"
)

// keep returns the test that an event must pass to be stored; nil: all are.
func (p Preset) keep() func(event []byte) bool {
	if p == AdmissionDecisions {
		return isDecision
	}
	return nil
}

// isDecision reports whether an event may tell of a decision of admission: a request
// denied, a violation written down beside a request that went through, a webhook that
// could not be asked. The event says so in two places, both there from level Metadata
// on: its annotations, and the status that was answered.
//
// An event kept for nothing costs a record, one left out is a decision lost. So it is
// left out only when all that could speak for it has been read and does not; what is
// missing, or of a type it should not have, speaks for it.
func isDecision(event []byte) bool {
	if rawjson.KindOf(event) == rawjson.Invalid {
		return true // it is refused with a reason, and kept among the refused lines
	}
	r := readRequest(event)
	return isAnnotated(r.annotations) || r.isDenied()
}

// request is what an event says of a request as far as decisions go.
type request struct {
	stage, verb, object, status, annotations rawjson.Value
}

func readRequest(event []byte) request {
	var r request
	for name, value := range rawjson.Members(event) {
		switch string(name) {
		case "stage":
			r.stage = value
		case "verb":
			r.verb = value
		case "objectRef":
			r.object = value
		case "responseStatus":
			r.status = value
		case "annotations":
			r.annotations = value
		}
	}
	return r
}

// isAnnotated reports whether an annotation is that of an admission plugin: of a
// webhook ("<webhook>/<key>"), of a policy ("<policy>/<key>"), of a webhook that has
// failed open, of a violation. The operator of the cluster chooses their names, so only
// the annotations of other origin are known.
func isAnnotated(annotations rawjson.Value) bool {
	if annotations.Kind() != rawjson.Object {
		return !isAbsent(annotations)
	}
	for name, value := range rawjson.Members(annotations) {
		if !isRoutine(name) || value.Kind() != rawjson.String {
			return true
		}
	}
	return false
}

// isRoutine reports whether an annotation says nothing of a decision: an API server
// writes it on requests that were admitted as well.
func isRoutine(key []byte) bool {
	domain, name, _ := bytes.Cut(key, []byte("/"))
	switch string(domain) {
	case "authorization.k8s.io", // why the user may do it at all
		"authentication.k8s.io", "authentication.kubernetes.io", // with which token
		"apiserver.latency.k8s.io", "audit.k8s.io", "apiserver.k8s.io", "k8s.io",
		"missing-san.invalid-cert.kubernetes.io", "insecure-sha1.invalid-cert.kubernetes.io",
		"mutation.webhook.admission.k8s.io", "patch.webhook.admission.k8s.io": // what a webhook has changed
		return true
	case "pod-security.kubernetes.io":
		return string(name) == "enforce-policy" // beside every pod that was admitted
	}
	return false
}

// isDenied reports whether admission may have answered the request with a failure.
func (r *request) isDenied() bool {
	switch {
	case string(r.stage.Text()) == "RequestReceived" && isAbsent(r.status):
		return false // nothing was decided yet
	case string(r.stage.Text()) == "Panic":
		return true // nobody knows what was
	}
	message := rawjson.Member(r.status, "message")
	code, err := strconv.ParseFloat(string(rawjson.Member(r.status, "code")), 64)
	switch {
	case err != nil, message.Kind() != rawjson.String && !isAbsent(message):
		return true // this is no status
	case code < http.StatusBadRequest && string(rawjson.Member(r.status, "status").Text()) != "Failure":
		return false
	case r.isReading(), isForbidden(r.annotations):
		return false // it did not get to admission
	}
	return isAdmissionFailure(code, message.String())
}

// isAdmissionFailure tells an answer of admission from those of the API itself, such as
// that an object is not there or has changed. A webhook chooses its code, a
// ValidatingAdmissionPolicy among a few, but the message names them; the plugins within
// the API server (PodSecurity, ResourceQuota ...) answer 403. One that could not decide,
// as its webhook does not answer, fails with 500 or 504.
func isAdmissionFailure(code float64, message string) bool {
	if message == "" || code == http.StatusForbidden || code >= http.StatusInternalServerError {
		return true
	}
	message = strings.ToLower(message)
	return strings.Contains(message, "admission") || strings.Contains(message, "webhook") || strings.Contains(message, "denied")
}

// isReading reports whether the request is one that admission never sees. A get of a
// subresource may be one to connect, such as exec.
func (r *request) isReading() bool {
	switch string(r.verb.Text()) {
	case "list", "watch":
		return true
	case "get":
		return isAbsent(rawjson.Member(r.object, "subresource"))
	}
	return false
}

// isForbidden reports whether authorization has turned the request away.
func isForbidden(annotations rawjson.Value) bool {
	return string(rawjson.Member(annotations, "authorization.k8s.io/decision").Text()) == "forbid"
}

func isAbsent(v rawjson.Value) bool { return v == nil || v.Kind() == rawjson.Null }
