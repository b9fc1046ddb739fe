package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/admission"
	"github.com/docket-export/docket/webhook/engine/audit"
	"github.com/docket-export/docket/webhook/engine/cluster"
	"github.com/docket-export/docket/webhook/engine/directory"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

const (
	// closeTimeout is how long a command waits for docket at its end.
	closeTimeout = 5 * time.Second
	// reviewTimeout is how long an API server waits for a webhook by default.
	reviewTimeout = 10 * time.Second
	// loadTimeout is how long a command waits for the policies of a cluster. Those that come take seconds.
	loadTimeout = 2 * time.Minute
)

// load returns the policies in files, of which nothing is kept, and what is wrong with them.
func load(ctx context.Context, paths ...string) (*policy.Set, *directory.Directory, []string, error) {
	set, err := policy.New(policy.Options{OnError: policy.Ignore})
	if err != nil {
		return nil, nil, nil, err
	}
	d := directory.New(directory.Config{Paths: paths, Policies: set, Log: slog.New(slog.DiscardHandler)})
	d.Load(ctx)
	var wrong []string
	for _, p := range d.Problems() {
		wrong = append(wrong, p.String())
	}
	for _, s := range set.States() {
		if s.Phase != policy.Active {
			file, line := d.Place(s.ID)
			wrong = append(wrong, fmt.Sprintf("%s:%d: %s: %s: %s", file, line, s.ID, s.Reason, s.Message))
		}
	}
	return set, d, wrong, nil
}

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE|DIR...",
		Short:   "Check policies in files",
		Example: "  docket-webhook validate policies/\n  docket-webhook validate template.yaml constraint.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("missing argument: files or directories with policies")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, _, wrong, err := load(cmd.Context(), args...)
			if err != nil {
				return failed(err)
			}
			for _, w := range wrong {
				fmt.Fprintln(cmd.OutOrStdout(), w)
			}
			if len(wrong) > 0 {
				return errFound
			}
			templates, constraints := 0, 0
			for _, s := range set.States() {
				if s.Kind == policy.TemplateKind {
					templates++
				} else {
					constraints++
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d templates and %d constraints are valid\n", templates, constraints)
			return failed(err)
		},
	}
}

// offline is what review and audit have in common: policies of a directory, and records.
type offline struct {
	common
	output string
}

func (o *offline) add(cmd *cobra.Command) {
	o.common.add(cmd, "", slog.LevelWarn)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, or json for the records, one a line")
}

// policies returns those of --policy-dir. Broken ones are an error: what they would have said
// nobody knows.
func (o *offline) policies(ctx context.Context) (*policy.Set, *directory.Directory, error) {
	if err := o.checkPolicyDir(); err != nil {
		return nil, nil, err
	}
	set, d, wrong, err := load(ctx, o.policyDir)
	if err == nil && len(wrong) > 0 {
		err = errors.New(strings.Join(wrong, "\n"))
	}
	return set, d, failed(err)
}

// print writes a violation.
func (o *offline) print(w io.Writer, r *decision.Record) error {
	if o.output != "json" {
		resource := strings.Trim(strings.Join([]string{r.ResourceKind, r.ResourceNamespace, r.ResourceName}, "/"), "/")
		name := ""
		if r.Name != "" { // no policy is to blame where one would not load
			name = "[" + r.Name + "] "
		}
		_, err := fmt.Fprintf(w, "%s: %s: %s%s\n", r.Decision, strings.ReplaceAll(resource, "//", "/"), name, r.Message)
		return err
	}
	line, err := r.AppendLine(nil)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

func (o *offline) check() error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output: must be text or json, not %q", o.output)
	}
	return nil
}

func newReview() *cobra.Command {
	var o offline
	var file string
	cmd := &cobra.Command{
		Use:   "review -f FILE --policy-dir DIR",
		Short: "Show the decision of policies about one request or object",
		Long: `review shows the decision of the policies in a directory about an
AdmissionReview, or about the creation of an object. It exits 1 when the
decision is deny.`,
		Example: "  docket-webhook review -f pod.yaml --policy-dir policies/\n  kubectl get pod web -o json | docket-webhook review -f - --policy-dir policies/ -o json",
		Args:    noArgs,
	}
	o.add(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "the request or object, as YAML or JSON; - is the standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		request, err := readRequest(file, cmd.InOrStdin())
		if err != nil {
			return err
		}
		set, d, err := o.policies(cmd.Context())
		if err != nil {
			return err
		}
		return o.finish(cmd, o.decide(cmd.Context(), request, set, d))
	}
	return cmd
}

// decide returns the records that the webhook would leave of a request.
func (o *offline) decide(ctx context.Context, q *admissionv1.AdmissionRequest, set *policy.Set, d *directory.Directory) []*decision.Record {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	answer, records := admission.Decide(ctx, admission.Config{
		Policies: set, Namespace: d.Namespace,
		Exempt: func(namespace string) bool { return d.Settings().Excluded(settings.Webhook, namespace) },
	}, q)
	if !answer.Allowed && len(records) == 0 { // a policy that would not load
		records = []*decision.Record{{Decision: decision.Deny, Message: answer.Result.Message}}
	}
	for _, r := range records {
		r.EventType = cmp.Or(r.EventType, decision.AdmissionReview)
		r.SchemaVersion, r.Process, r.Timestamp = decision.SchemaVersion, decision.Admission, time.Now().UTC()
		r.ID, r.RequestUID, r.Operation, r.Cluster = string(q.UID), string(q.UID), string(q.Operation), o.cluster
		r.ResourceGroup, r.ResourceAPIVersion, r.ResourceKind = q.Kind.Group, q.Kind.Version, q.Kind.Kind
		r.ResourceNamespace, r.ResourceName = q.Namespace, q.Name
		r.RequestResource, r.RequestSubresource = q.Resource.Resource, q.SubResource
		r.RequestUsername, r.RequestUserUID, r.RequestUserGroups = q.UserInfo.Username, q.UserInfo.UID, q.UserInfo.Groups
	}
	return records
}

// finish prints and stores records. A denial, or a policy that could not decide, is exit code 1.
func (o *offline) finish(cmd *cobra.Command, records []*decision.Record) error {
	log, err := o.log(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	client, err := o.client(log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), closeTimeout)
	defer cancel()
	for _, r := range records {
		r.Sequence = client.NextSequence()
		if err := errors.Join(o.print(cmd.OutOrStdout(), r), client.Log(ctx, r)); err != nil {
			return failed(err)
		}
	}
	if left, err := client.Close(ctx); left > 0 {
		return failed(fmt.Errorf("%d records are lost, docket has not acknowledged them: %w", left, err))
	}
	if slices.ContainsFunc(records, func(r *decision.Record) bool { return r.Decision == decision.Deny || r.Decision == decision.Error }) {
		return errFound
	}
	if len(records) == 0 && o.output == "text" {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "allow")
	}
	return failed(err)
}

// readRequest returns the request in an AdmissionReview, or that to create an object.
func readRequest(file string, in io.Reader) (*admissionv1.AdmissionRequest, error) {
	text, err := []byte(nil), errors.New("name a file with an AdmissionReview or an object, or - for the standard input")
	if file == "-" {
		text, err = io.ReadAll(in)
	} else if file != "" {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	if text, err = yaml.YAMLToJSONStrict(text); err != nil {
		return nil, fmt.Errorf("--file: %s: %w", file, err)
	}
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("--file: %s: must be an AdmissionReview or an object of Kubernetes: %w", file, err)
	}
	gvk := object.GroupVersionKind()
	if gvk != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Kind: metav1.GroupVersionKind(gvk), Name: object.GetName(), Namespace: object.GetNamespace(),
			Object: runtime.RawExtension{Raw: bytes.TrimSpace(text)},
		}, nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, fmt.Errorf("--file: %s: %w", file, err)
	}
	if review.Request == nil {
		return nil, fmt.Errorf("--file: %s: the AdmissionReview has no request", file)
	}
	return review.Request, nil
}

func newAudit() *cobra.Command {
	var o offline
	var once bool
	var manifests []string
	cmd := &cobra.Command{
		Use:   "audit --once [--policy-dir DIR] [--manifests FILE|DIR]...",
		Short: "Review every object in a cluster or in files, once",
		Long: `audit reviews every object of a cluster or in files. The policies are those of
the cluster or in a directory. It exits 1 when an object is denied, or when it
could not review every object.`,
		Example: "  docket-webhook audit --once --policy-dir policies/ --manifests deploy/\n  docket-webhook audit --once --policy-dir policies/ --kubeconfig ~/.kube/config -o json",
		Args:    noArgs,
	}
	o.add(cmd)
	o.addKubeconfig(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "run once; a pod with --operation audit repeats its runs")
	cmd.Flags().StringArrayVar(&manifests, "manifests", nil, "YAML and JSON files to review instead of a cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if !once {
			return errors.New("--once is required: a pod with --operation audit makes one run after the other")
		}
		return o.audit(cmd, manifests)
	}
	return cmd
}

func (o *offline) audit(cmd *cobra.Command, manifests []string) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	log, err := o.log(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	lister, err := o.lister(manifests)
	if err != nil {
		return err
	}
	set, from, err := o.auditPolicies(ctx, &running, log)
	if err != nil {
		return err
	}
	client, err := o.client(log)
	if err != nil {
		return err
	}
	var unwritten error
	report, err := audit.Run(ctx, audit.Config{
		Policies: set, Lister: lister, Client: client, Cluster: o.cluster, Log: log,
		Exempt: func(namespace string) bool { return from.Excluded(settings.Audit, namespace) },
		Found: func(r *decision.Record) {
			if err := o.print(cmd.OutOrStdout(), r); err != nil {
				unwritten = err
			}
		},
	})
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	_, closed := client.Close(end)
	if err := errors.Join(err, unwritten, closed); err != nil {
		return failed(err)
	}
	if o.output == "text" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d objects, %d violations\n", report.Objects, *report.Reported)
	} else {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report.Run)
	}
	switch {
	case err != nil:
		return failed(err)
	case !report.Complete:
		return failed(fmt.Errorf("not everything was reviewed: %s: %s", report.Reason, report.Detail))
	case report.Decisions[decision.Deny] > 0:
		return errFound
	}
	return nil
}

// auditPolicies returns the policies of --policy-dir or, without it, the cluster's.
func (o *offline) auditPolicies(ctx context.Context, running *sync.WaitGroup, log *slog.Logger) (*policy.Set, source, error) {
	if o.policyDir != "" {
		set, d, err := o.policies(ctx)
		return set, files{d}, err
	}
	config, err := o.rest()
	if err != nil {
		return nil, nil, err
	}
	return clusterPolicies(ctx, running, config, log)
}

// clusterPolicies returns the policies of a cluster once they are loaded. They are kept up to date until ctx is done.
func clusterPolicies(ctx context.Context, running *sync.WaitGroup, config *rest.Config, log *slog.Logger) (*policy.Set, source, error) {
	set, err := policy.New(policy.Options{Log: log})
	if err != nil {
		return nil, nil, failed(err)
	}
	from, err := cluster.New(cluster.Config{REST: config, Policies: set, Namespace: thisPod().namespace, BesideGatekeeper: true, ReadOnly: true, Log: log})
	if err != nil {
		return nil, nil, failed(err)
	}
	running.Go(func() { _ = from.Run(ctx) }) // which fails for nothing but Gatekeeper
	running.Go(func() { _ = set.Run(ctx) })
	bounded, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := awaitReady(bounded, from); err != nil {
		return nil, nil, failed(err)
	}
	return set, from, nil
}

func (o *offline) lister(manifests []string) (audit.Lister, error) {
	if len(manifests) == 0 {
		config, err := o.rest()
		if err != nil {
			return nil, err
		}
		return audit.NewCluster(config)
	}
	return audit.ReadManifests(manifests...), nil
}
