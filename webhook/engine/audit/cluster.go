package audit

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// The load that a run may be to an API server: that of one controller by controller-runtime's
// defaults. A page of 500 objects is one request.
const (
	queriesPerSecond = 20
	queryBurst       = 30
)

// Cluster lists what an API server has.
type Cluster struct {
	config  *rest.Config
	http    *http.Client
	dynamic dynamic.Interface
}

// NewCluster returns the Lister of the cluster of config, of which it takes a copy with
// limits and a user agent of its own.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/audit"
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(queriesPerSecond, queryBurst)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &Cluster{config, client, objects}, nil
}

// Kinds returns those that the API server can list, of each group in the version that it prefers.
func (c *Cluster) Kinds(ctx context.Context) ([]Kind, error) {
	bounded := *c.http
	bounded.Transport = inContext{c.http.Transport, ctx}
	finder, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, &bounded)
	if err != nil {
		return nil, err
	}
	lists, err := finder.ServerPreferredResources()
	var kinds []Kind
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			return nil, parseErr
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				kinds = append(kinds, Kind{gv.WithKind(r.Kind), r.Name})
			}
		}
	}
	return kinds, err
}

// List is Lister's.
func (c *Cluster) List(ctx context.Context, k Kind, limit int64, token string) (*unstructured.UnstructuredList, error) {
	return c.dynamic.Resource(k.GroupVersion().WithResource(k.Resource)).List(ctx, metav1.ListOptions{Limit: limit, Continue: token})
}

// Namespace is Lister's.
func (c *Cluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	o, err := c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return policy.ReadNamespace(o)
}

// inContext makes requests in a context: discovery knows none.
type inContext struct {
	http.RoundTripper
	ctx context.Context
}

func (t inContext) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(r.WithContext(t.ctx))
}
