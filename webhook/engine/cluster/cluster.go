// Package cluster keeps policies, data and settings as a cluster's API server has them.
//
// Each pod does so for itself. There is no leader: what one pod writes - the CRDs of
// constraints, and the last valid revisions - is what all others would write, so that whoever
// is first is enough. While the API server is away everything stays as it was.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// Policies is what a cluster feeds: a policy.Set.
type Policies interface {
	Put(context.Context, *unstructured.Unstructured)
	Delete(*unstructured.Unstructured)
	States() []policy.State
	Syncing(kinds, pending []schema.GroupVersionKind)
	PutData(context.Context, *unstructured.Unstructured) error
	DeleteData(context.Context, *unstructured.Unstructured) error
	CRD(template *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error)
}

// Config is what a Cluster needs.
type Config struct {
	REST     *rest.Config
	Policies Policies
	// Namespace is the pod's. Gatekeeper's Config is read there, and in gatekeeper-system.
	Namespace string
	// BesideGatekeeper says that Gatekeeper may enforce the same policies.
	BesideGatekeeper bool
	// ReadOnly leaves the CRDs of constraints as they are.
	ReadOnly bool
	Log      *slog.Logger
}

// Cluster keeps what an API server has.
type Cluster struct {
	config    Config
	log       *slog.Logger
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	started   atomic.Bool // Run has begun to watch
	ready     atomic.Bool // once and for all

	giveUp, giveUpFailing time.Duration // those of the constants, but in tests

	policies, data, namespaces *controller

	templates templates
	kinds     []schema.GroupVersionKind // of data; owned by the data controller
	sources   map[string]*unstructured.Unstructured

	mu       sync.RWMutex
	settings settings.Settings
	known    map[string]*corev1.Namespace
}

// New returns a cluster that asks nothing before Run.
func New(c Config) (*Cluster, error) {
	client, err := dynamic.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	k := &Cluster{
		config: c, log: c.Log, client: client, discovery: found, giveUp: giveUp, giveUpFailing: giveUpFailing,
		sources: map[string]*unstructured.Unstructured{}, known: map[string]*corev1.Namespace{},
	}
	k.templates.init()
	k.policies = k.newController(k.policyEvent)
	k.data = k.newController(k.dataEvent)
	k.namespaces = k.newController(k.namespaceEvent)
	return k, nil
}

// Run feeds the policies until ctx is done, and returns nil then. It returns
// ErrBesideGatekeeper before it has fed anything.
func (k *Cluster) Run(ctx context.Context) error {
	if !k.config.BesideGatekeeper {
		if err := k.alone(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
	defer func() {
		for _, c := range k.controllers() {
			c.close()
		}
	}()
	k.policies.replace(policyKinds)
	k.data.replace(settingsKinds)
	k.namespaces.add(namespaceKind)
	k.started.Store(true)

	var running sync.WaitGroup
	defer running.Wait()
	for _, c := range k.controllers() {
		running.Go(func() { c.run(ctx) })
	}
	running.Go(func() { k.defineConstraints(ctx) })
	<-ctx.Done()
	return nil
}

// A pod is ready without a kind of data that the API server does not list, as policies that need it are in Error.
const (
	// giveUp is how long one that is forbidden holds up a start: roles may come a moment after the pod.
	giveUp = 10 * time.Second
	// giveUpFailing is how long one does whose list fails, as behind a conversion webhook that is down.
	giveUpFailing = time.Minute
)

// giveUpAfter is how long a kind of data does whose list is answered with err.
func (k *Cluster) giveUpAfter(err error) time.Duration {
	if apierrors.IsForbidden(err) {
		return k.giveUp
	}
	return k.giveUpFailing
}

// Ready returns nil once each policy and all data that there were at the start are in the
// policies, and names what is missing before.
func (k *Cluster) Ready(context.Context) error {
	if k.ready.Load() {
		return nil
	}
	if !k.started.Load() {
		return errors.New("cluster: the API server has not answered yet")
	}
	missing := k.missingKinds()
	for _, name := range k.templates.untried() {
		missing = append(missing, "the CRD of ConstraintTemplate/"+name)
	}
	if len(missing) == 0 {
		// Once more: the last template may have added the kind of its constraints in between.
		missing = k.missingKinds()
	}
	if len(missing) == 0 {
		k.ready.Store(true)
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("cluster: not loaded yet: %s", strings.Join(missing, ", "))
}

func (k *Cluster) missingKinds() []string {
	var missing []string
	for _, c := range k.controllers() {
		for _, gvk := range c.missing() {
			refused, err := c.err(gvk)
			if c == k.data && !slices.Contains(settingsKinds, gvk) && refused > k.giveUpAfter(err) {
				continue
			}
			text := gvk.String()
			if err != nil {
				text += " (" + err.Error() + ")"
			}
			missing = append(missing, text)
		}
	}
	return missing
}

func (k *Cluster) controllers() []*controller { return []*controller{k.policies, k.data, k.namespaces} }

// Excluded says whether the cluster's settings exclude a namespace from process.
func (k *Cluster) Excluded(process settings.Process, namespace string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.settings.Excluded(process, namespace)
}

// resource returns the resource of a kind. It does not ask where it knows: after the API
// server has started it may serve objects before it names their kinds.
func (k *Cluster) resource(_ context.Context, gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	name := resources[gvk]
	if gvk.Group == policy.ConstraintsGroup {
		name = strings.ToLower(gvk.Kind)
	}
	if name != "" {
		return gvk.GroupVersion().WithResource(name), nil
	}
	list, err := k.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return gvk.GroupVersion().WithResource(r.Name), nil
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// ErrBesideGatekeeper is returned where Gatekeeper enforces the same policies.
var ErrBesideGatekeeper = errors.New("the webhook of Gatekeeper is in this cluster and enforces the same policies: remove it, or start with --beside-gatekeeper")

// alone returns nil if the API server calls no Gatekeeper. It asks until it has an answer.
func (k *Cluster) alone(ctx context.Context) error {
	list, err := backoff.Retry(ctx, func() (*unstructured.UnstructuredList, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return k.client.Resource(webhookConfigurations).List(ctx, metav1.ListOptions{})
	}, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		k.log.Warn("cannot tell whether Gatekeeper is in the cluster", "error", err, "again", wait)
	}))
	if err != nil {
		return err // ctx is done
	}
	if name := gatekeeperAmong(list.Items); name != "" {
		return fmt.Errorf("cluster: ValidatingWebhookConfiguration %s: %w", name, ErrBesideGatekeeper)
	}
	return nil
}

func gatekeeperAmong(configurations []unstructured.Unstructured) string {
	for _, c := range configurations {
		if c.GetName() == "gatekeeper-validating-webhook-configuration" {
			return c.GetName()
		}
		hooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
		for _, hook := range hooks {
			hook, _ := hook.(map[string]any)
			if service, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name"); service == "gatekeeper-webhook-service" {
				return c.GetName()
			}
		}
	}
	return ""
}
