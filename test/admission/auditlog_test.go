package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

func TestAuditEvent(t *testing.T) {
	const event = `{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/configmaps?dryRun=%s","verb":"create",` +
		`"user":{"username":"admin"},"impersonatedUser":{"username":"alice"},"objectRef":{"resource":"configmaps","namespace":"shop","name":"cart"},` +
		`"responseStatus":{"code":403,"message":%q},"annotations":{%s}}` + "\n"
	alice := verdict{user: "alice", operation: "CREATE", resource: "configmaps", namespace: "shop", name: "cart"}
	but := func(d string, message string) verdict {
		v := alice
		v.decision, v.message = d, message
		return v
	}
	dry := but(denied, "no")
	dry.dryRun = true
	tests := map[string]struct {
		dryRun, message, annotations string
		want                         verdict // the zero verdict: none
	}{
		"created":           {},
		"denied":            {message: "admission webhook \"validation.test\" denied the request: no \"team\"\nno owner", want: but(denied, "no \"team\"\nno owner")},
		"dry run":           {dryRun: "All", message: `admission webhook "validation.test" denied the request: no`, want: dry},
		"denied by another": {message: `admission webhook "other.test" denied the request: no`},
		"forbidden":         {message: `configmaps is forbidden: User "alice" cannot create it`},
		"failed": {
			message: `Internal error occurred: failed calling webhook "validation.test": failed to call webhook: an error on the server ("docket tap: the engine cannot be reached") has prevented the request from succeeding`,
			want:    but(failed, ""),
		},
		"refused": {
			message: `Internal error occurred: failed calling webhook "validation.test": failed to call webhook: Post "https://x/": dial tcp 127.0.0.1:1: connect: connection refused`,
			want:    but(unanswered, ""),
		},
		"failed open":         {annotations: `"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"validation.test"`, want: but(failed, "")},
		"another failed open": {annotations: `"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"other.test"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			line := fmt.Sprintf(event, tt.dryRun, tt.message, tt.annotations)
			log := auditLog{path: t.TempDir() + "/audit.log"}
			if err := os.WriteFile(log.path, []byte(line+line[:20]), 0o600); err != nil {
				t.Fatal(err)
			}
			events := log.next(t)
			if len(events) != 1 {
				t.Fatalf("got %d events, want the one that is whole", len(events))
			}
			if got, ok := events[0].verdict("validation.test"); ok != (tt.want != verdict{}) || ok && got != tt.want {
				t.Errorf("got %v, %t, want %v", got, ok, tt.want)
			}
			if err := os.WriteFile(log.path, []byte(line+line), 0o600); err != nil {
				t.Fatal(err)
			}
			if events := log.next(t); len(events) != 1 {
				t.Errorf("got %d events after one was added, want it", len(events))
			}
		})
	}
}
