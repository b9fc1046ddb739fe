package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
)

// auditPolicy is the policy of the oracle: the end of each request that admission is
// asked about.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// auditEvent is what is read of an event of the API server.
type auditEvent struct {
	Stage, Verb, RequestURI string
	User, ImpersonatedUser  struct{ Username string }
	ObjectRef               struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus          struct {
		Code    int
		Message string
	}
	Annotations map[string]string
}

// auditLog reads the events of an audit log, those of one reading after those of the one
// before.
type auditLog struct {
	path string
	read int // bytes
}

// next returns the events that were added.
func (l *auditLog) next(t *testing.T) []auditEvent {
	t.Helper()
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var events []auditEvent
	for line := range bytes.Lines(text[l.read:]) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the API server is writing it
		}
		l.read += len(line)
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("read the audit log: %v in %.300s", err, line)
		}
		events = append(events, e)
	}
	return events
}

// verdict returns what the webhook has decided in e, less its warnings, if it has denied
// the request or failed.
func (e auditEvent) verdict(webhook string) (v verdict, ok bool) {
	v = verdict{
		user:      e.User.Username,
		operation: operations[e.Verb],
		resource:  e.ObjectRef.Resource,
		namespace: e.ObjectRef.Namespace,
		name:      e.ObjectRef.Name,
	}
	if e.ImpersonatedUser.Username != "" {
		v.user = e.ImpersonatedUser.Username
	}
	if e.ObjectRef.Subresource != "" {
		v.resource += "/" + e.ObjectRef.Subresource
	}
	if u, err := url.Parse(e.RequestURI); err == nil {
		v.dryRun = u.Query().Get("dryRun") == "All"
	}
	v.decide(e.ResponseStatus.Message, webhook)
	for key, value := range e.Annotations {
		if value == webhook && strings.HasPrefix(key, "failed-open.") {
			v.decision = failed
		}
	}
	return v, v.decision != ""
}

// operations are the operations of admission that verbs of the API stand for. An object
// that a patch makes is not told apart from one that it changes.
var operations = map[string]string{
	"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE",
}
