package kubetest

import (
	_ "embed"
	"errors"
	"strings"

	"github.com/docket-export/docket/test/internal/poll"
)

// RequiredLabels is the manifest of a ConstraintTemplate: constraints of the kind
// K8sRequiredLabels ask for the labels that their parameter "labels" lists.
//
//go:embed testdata/requiredlabels.yaml
var RequiredLabels string

// AwaitDenial runs kubectl with --dry-run=server until Gatekeeper denies what it asks
// for because of the constraint: its processes take up a new one by and by.
func (c *Cluster) AwaitDenial(constraint string, args ...string) {
	c.t.Helper()
	err := poll.Until(startTimeout, func() error {
		_, err := c.Try("", append(args, "--dry-run=server")...)
		if err == nil {
			return errors.New("it is not denied")
		}
		if !strings.Contains(err.Error(), "["+constraint+"]") {
			return err
		}
		return nil
	})
	if err != nil {
		c.t.Fatalf("wait for constraint %s: %v", constraint, err)
	}
}
