package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/docket-export/docket/webhook/engine/audit"
	"github.com/docket-export/docket/webhook/engine/cluster"
	"github.com/docket-export/docket/webhook/engine/lease"
	"github.com/docket-export/docket/webhook/engine/podstatus"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// pod is what the environment says of the own pod, by Kubernetes' downward API.
type pod struct {
	name, namespace string
	uid             types.UID
}

func thisPod() pod {
	p := pod{os.Getenv("POD_NAME"), os.Getenv("POD_NAMESPACE"), types.UID(os.Getenv("POD_UID"))}
	if p.name == "" {
		p.name, _ = os.Hostname() // which is the pod's name in Kubernetes
	}
	return p
}

// user is the own service account's, as its token says; "" without one.
func (e *engine) user() string {
	if e.rest == nil {
		return ""
	}
	token, err := os.ReadFile(e.rest.BearerTokenFile)
	parts := strings.Split(string(token), ".")
	if err != nil || len(parts) != 3 {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Subject
}

// fromCluster makes the source that the API server is.
func (e *engine) fromCluster() error {
	if e.pod.namespace == "" {
		return errors.New("POD_NAMESPACE is not set: name the namespace for Leases and last valid revisions, in a pod by the downward API")
	}
	revisions, err := cluster.NewRevisions(e.rest, e.pod.namespace, e.log)
	if err != nil {
		return failed(err)
	}
	if e.dynamic, err = dynamic.NewForConfig(e.rest); err != nil {
		return failed(err)
	}
	e.writer = podstatus.NewWriter(podstatus.WriterConfig{
		Client: e.dynamic, Namespace: e.pod.namespace, Pod: e.pod.name, UID: e.pod.uid, Operations: e.operations, Log: e.log,
	})
	if err := e.makeSet(policy.Options{Revisions: revisions, Changed: e.writer.Changed}); err != nil {
		return err
	}
	e.source, err = cluster.New(cluster.Config{REST: e.rest, Policies: e.set, Namespace: e.pod.namespace, BesideGatekeeper: e.besideGatekeeper, Log: e.log})
	return failed(err)
}

// startCluster starts what there is in a cluster alone. Audit and aggregation end with ctx, the
// pod's own status with background.
func (e *engine) startCluster(ctx, background context.Context, start func(name string, run func() error)) error {
	if e.pod.uid != "" {
		start("pod status", func() error { return e.writer.Run(background, e.set) })
	} else {
		e.log.Warn("no status of this pod is written: POD_UID is not set")
	}
	if e.has(statusOperation) {
		held, err := lease.New(e.rest, e.pod.namespace, "docket-webhook-status", e.pod.name)
		if err != nil {
			return err
		}
		aggregator := podstatus.NewAggregator(podstatus.AggregatorConfig{Client: e.dynamic, Namespace: e.pod.namespace, Lease: held, Log: e.log})
		start("status", func() error { return aggregator.Run(ctx) })
	}
	if !e.has(auditOperation) {
		return nil
	}
	held, err := lease.New(e.rest, e.pod.namespace, "docket-webhook-audit", e.pod.name)
	if err != nil {
		return err
	}
	lister, err := audit.NewCluster(e.rest)
	if err != nil {
		return err
	}
	schedule := &audit.Schedule{
		Config: audit.Config{
			Policies: e.set, Lister: lister, Client: e.client,
			Exempt:    func(namespace string) bool { return e.source.Excluded(settings.Audit, namespace) },
			ChunkSize: e.auditChunkSize, MatchKindOnly: e.auditMatchKind,
			Cluster: e.cluster, Pod: e.pod.name, Log: e.log,
		},
		Interval: time.Duration(e.auditInterval) * time.Second, Lease: held, Ended: e.metered.audited,
	}
	start("audit", func() error {
		if awaitReady(ctx, e.source) != nil {
			return nil //nolint:nilerr // ctx is done: the program ends
		}
		return schedule.Run(ctx)
	})
	return nil
}

// awaitReady waits until all policies and data are there. If ctx ends first, the error says what is missing.
func awaitReady(ctx context.Context, s source) error {
	for {
		err := s.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
