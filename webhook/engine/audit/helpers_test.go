package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
)

var (
	pods       = Kind{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods"}
	namespaces = Kind{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespaces"}
	roles      = Kind{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, "clusterroles"}
)

// cluster is a Lister whose faults a test plans.
type cluster struct {
	objects map[Kind][]*unstructured.Unstructured
	// before is asked before each call, named as "kinds", "Pod 2" (the third page) or
	// "namespace shop", and may fail it.
	before func(call string) error
	calls  []string
}

func newCluster(pages, size int) *cluster {
	c := &cluster{objects: map[Kind][]*unstructured.Unstructured{namespaces: {newObject(namespaces, "", "shop")}}}
	for i := range pages * size {
		c.objects[pods] = append(c.objects[pods], newObject(pods, "shop", fmt.Sprintf("pod-%06d", i)))
		c.objects[roles] = append(c.objects[roles], newObject(roles, "", fmt.Sprintf("role-%06d", i)))
	}
	return c
}

func newObject(k Kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID("uid-of-" + name))
	o.SetLabels(map[string]string{"app": name})
	return o
}

func (c *cluster) call(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	c.calls = append(c.calls, call)
	if c.before == nil {
		return nil
	}
	return c.before(call)
}

func (c *cluster) Kinds(ctx context.Context) ([]Kind, error) {
	var kinds []Kind
	err := c.call("kinds")
	if err == nil || errors.Is(err, errPartial) {
		for k := range c.objects {
			kinds = append(kinds, k)
		}
	}
	return kinds, errors.Join(err, ctx.Err())
}

func (c *cluster) List(ctx context.Context, k Kind, limit int64, token string) (*unstructured.UnstructuredList, error) {
	from, _ := strconv.Atoi(strings.TrimPrefix(token, "fresh-"))
	if err := c.call("%s %d", k.Kind, from/int(limit)); err != nil {
		return nil, err
	}
	list, all := &unstructured.UnstructuredList{}, c.objects[k]
	to := min(from+int(limit), len(all))
	for _, o := range all[from:to] {
		list.Items = append(list.Items, *o)
	}
	if to < len(all) {
		list.SetContinue(strconv.Itoa(to))
	}
	return list, ctx.Err()
}

func (c *cluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	if err := c.call("namespace %s", name); err != nil {
		return nil, err
	}
	for _, o := range c.objects[namespaces] {
		if o.GetName() == name {
			ns, err := policy.ReadNamespace(o)
			return ns, errors.Join(err, ctx.Err())
		}
	}
	return nil, ctx.Err()
}

var (
	errPartial   = errors.New("metrics.k8s.io/v1beta1 is down")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	errBusy      = apierrors.NewInternalError(errors.New("etcd has no leader"))
)

// expiredError is what an API server answers to a token that is too old.
func expiredError(fresh string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "The provided continue parameter is too old", ListMeta: metav1.ListMeta{Continue: fresh},
	}}
}

// policies say that pods violate one constraint, and that all else does another.
type policies struct {
	states []policy.State
	review func(ctx context.Context, r policy.Request) *policy.Verdict // nil, or what it returns: by kind
	asked  []policy.Request
}

func (p *policies) Matches(gvk schema.GroupVersionKind) bool { return gvk == pods.GroupVersionKind }
func (p *policies) States() []policy.State                   { return p.states }

func (p *policies) Review(ctx context.Context, r policy.Request) policy.Verdict {
	p.asked = append(p.asked, r)
	if p.review != nil {
		if v := p.review(ctx, r); v != nil {
			return *v
		}
	}
	switch r.Object.GetKind() {
	case "Pod":
		return violations("no-pods", "deny")
	case "ClusterRole":
		return violations("no-roles", "dryrun")
	}
	return policy.Verdict{}
}

func violations(constraint, action string) policy.Verdict {
	c := &unstructured.Unstructured{}
	c.SetAPIVersion("constraints.gatekeeper.sh/v1beta1")
	c.SetKind("Banned")
	c.SetName(constraint)
	return policy.Verdict{Violations: []policy.Violation{{
		Constraint: c, Template: "banned", Message: strings.Repeat("m", 300), Details: map[string]any{"x": 1}, Action: action, Actions: []string{action},
	}}}
}

// docket is an exporter in memory, and the client of it.
type docket struct {
	*clienttest.Exporter
	client *client.Client
}

// newDocket returns one that lives in a bubble, until close.
func newDocket(t *testing.T) *docket {
	t.Helper()
	d := &docket{Exporter: clienttest.New()}
	var err error
	d.client, err = client.New(client.Config{
		Address:    "test://",
		Transports: map[string]client.Transport{"test": func(string, *client.Config) (client.Dial, error) { return d.Dial, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// stop ends both, and returns the violations that were stored, and the records of runs.
func (d *docket) stop(t *testing.T) (violations []decision.Record, runs []decision.Run) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = d.client.Close(ctx)
	d.Close()
	for _, err := range d.Violations() {
		t.Errorf("violation of the protocol: %v", err)
	}
	for _, l := range d.Lines() {
		var r decision.Record
		var run decision.Run
		if err := errors.Join(json.Unmarshal([]byte(l.Text), &r), json.Unmarshal([]byte(l.Text), &run)); err != nil {
			t.Fatalf("%s: %v", l.Text, err)
		}
		switch r.EventType {
		case decision.ViolationAudited:
			violations = append(violations, r)
		case decision.AuditRun:
			runs = append(runs, run)
		}
	}
	return violations, runs
}
