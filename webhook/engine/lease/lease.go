// Package lease has something done by one pod at a time.
package lease

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times of Kubernetes' own controllers.
const (
	duration      = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Grace is how long after the loss of a Lease no other pod has it. A pod begins to fail to
// renew it up to retryPeriod after it has done so last.
const Grace = duration - renewDeadline - retryPeriod

// ErrLost is the cause of a context that ends because the Lease was lost.
var ErrLost = errors.New("the Lease was lost")

// New returns the Lease of that name, for a pod called identity.
func New(config *rest.Config, namespace, name, identity string) (resourcelock.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/lease"
	config.Timeout = renewDeadline / 2 // one request that hangs must not cost the Lease
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// Hold calls do whenever this pod gets the Lease, until ctx is done. do must return within Grace when its
// own context is done, which is so when ctx is, or when the Lease is lost. The Lease is
// given up only when do has returned.
func Hold(ctx context.Context, lease resourcelock.Interface, do func(context.Context)) error {
	for ctx.Err() == nil {
		if err := term(ctx, lease, do); err != nil {
			return err
		}
	}
	return nil
}

// term waits for the Lease, and calls do once.
func term(ctx context.Context, lease resourcelock.Interface, do func(context.Context)) error {
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lease, Name: lease.Describe(), ReleaseOnCancel: true,
		LeaseDuration: duration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	// The elector outlives ctx by the end of do, and gives up the Lease only then.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan struct{})
	go func() {
		defer close(left)
		elector.Run(election)
	}()
	select {
	case <-ctx.Done():
	case lead := <-leading:
		held, lost := context.WithCancelCause(ctx)
		stop := context.AfterFunc(lead, func() { lost(ErrLost) })
		do(held)
		stop()
		lost(nil)
	}
	leave()
	<-left
	return nil
}
