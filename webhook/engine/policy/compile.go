package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	regoschema "github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego/schema"
	"github.com/open-policy-agent/frameworks/constraint/pkg/core/templates"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/cachemanager/parser"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel"
	celschema "github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel/schema"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel/transform"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// points are where constraints can be enforced.
var points = []string{util.WebhookEnforcementPoint, util.AuditEnforcementPoint, util.GatorEnforcementPoint}

// newClient returns a client of the constraint framework as Gatekeeper's manifest has it set up: CEL before Rego where a
// template has both, and no http.send.
func (s *Set) newClient() (*client.Client, *rego.Driver, *transactions, error) {
	celDriver, err := k8scel.New()
	if err != nil {
		return nil, nil, nil, err
	}
	store := newTransactions()
	regoDriver, err := rego.New(rego.DisableBuiltins("http.send"), rego.Storage(map[string]storage.Store{target.Name: store}))
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := client.NewClient(client.Targets(s.target), client.Driver(celDriver), client.Driver(regoDriver), client.EnforcementPoints(points...))
	return c, regoDriver, store, err
}

// compile makes obj, a template, the one that next enforces, if the data that it needs is synced. A trial needs none.
func (s *Set) compile(ctx context.Context, next *snapshot, obj *unstructured.Unstructured, trial bool) error {
	t, err := s.convert(obj)
	if err != nil {
		return &problem{CompileFailed, err}
	}
	kinds, err := inspect(t)
	if err != nil {
		return err
	}
	// Gatekeeper enforces a template whose annotation it cannot read; what the code refers to counts all the same.
	required, _ := parser.ReadSyncRequirements(t)
	next.refers = next.refers || len(kinds)+len(required) > 0
	if err := s.data.missing(kinds, required); err != nil && !trial {
		return &problem{DataNotSynced, err}
	}
	c, driver, store, err := s.newClient()
	if err != nil {
		return &problem{CompileFailed, err}
	}
	if _, err := c.AddTemplate(ctx, t); err != nil {
		return &problem{CompileFailed, err}
	}
	next.client, next.driver, next.store = c, driver, store
	return nil
}

// convert reads a template of any version.
func (s *Set) convert(obj *unstructured.Unstructured) (*templates.ConstraintTemplate, error) {
	versioned, err := s.scheme.New(obj.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, versioned); err != nil {
		return nil, err
	}
	s.scheme.Default(versioned)
	t := &templates.ConstraintTemplate{}
	if err := s.scheme.Convert(versioned, t, nil); err != nil {
		return nil, err
	}
	for _, target := range t.Spec.Targets {
		for _, op := range target.Operations {
			if string(op) == "*" && len(target.Operations) > 1 {
				return nil, errors.New("operations: \"*\" stands alone")
			}
		}
	}
	return t, nil
}

// inspect finds what the framework's drivers do not tell: mistakes in CEL, which they report at each review, and the kinds
// of data that Rego refers to, see dataKind. Other mistakes are left to them.
func inspect(t *templates.ConstraintTemplate) (kinds []string, err error) {
	if len(t.Spec.Targets) != 1 {
		return nil, nil
	}
	for _, code := range t.Spec.Targets[0].Code {
		if code.Engine == celschema.Name {
			return nil, inspectCEL(t)
		}
	}
	for _, code := range t.Spec.Targets[0].Code {
		if code.Engine == regoschema.Name {
			return inspectRego(code)
		}
	}
	return nil, nil
}

func inspectRego(code templates.Code) (kinds []string, err error) {
	source, err := regoschema.GetSource(code)
	if err != nil {
		return nil, &problem{CompileFailed, err}
	}
	version := ast.RegoV0
	if source.Version == "v1" {
		version = ast.RegoV1
	}
	external := false
	for _, text := range append([]string{source.Rego}, source.Libs...) {
		module, err := ast.ParseModuleWithOpts("template", text, ast.ParserOptions{RegoVersion: version})
		if err != nil {
			return nil, &problem{CompileFailed, err}
		}
		ast.WalkRefs(module, func(ref ast.Ref) bool {
			external = external || ref[0].Equal(ast.VarTerm("external_data"))
			if kind, ok := dataKind(ref); ok {
				kinds = append(kinds, kind)
			}
			return false
		})
	}
	if external {
		return nil, &problem{Unsupported, errors.New("this engine has no external data")}
	}
	return kinds, nil
}

// dataKind returns the kind of a reference to data.inventory.cluster[version][kind][name] or
// data.inventory.namespace[namespace][version][kind][name], "" where the code does not spell it out.
func dataKind(ref ast.Ref) (kind string, ok bool) {
	literal := func(i int) string {
		if i >= len(ref) {
			return ""
		}
		text, _ := ref[i].Value.(ast.String)
		return string(text)
	}
	if !ref[0].Equal(ast.DefaultRootDocument) || literal(1) != "inventory" {
		return "", false
	}
	switch literal(2) {
	case "cluster":
		kind = literal(4)
	case "namespace":
		kind = literal(5)
	}
	return kind, true
}

// inspectCEL compiles what k8scel.Driver.AddTemplate compiles, in the same way.
func inspectCEL(t *templates.ConstraintTemplate) error {
	source, err := celschema.GetSourceFromTemplate(t)
	if err != nil {
		return &problem{CompileFailed, err}
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return &problem{CompileFailed, err}
	}
	variables, err1 := source.GetVariables()
	conditions, err2 := source.GetMatchConditions()
	validations, err3 := source.GetValidations()
	messages, err4 := source.GetMessageExpressions()
	errs := []error{err1, err2, err3, err4}
	said := func(expression string, err *cel.CompilationResult) {
		if err.Error != nil {
			errs = append(errs, fmt.Errorf("%s: %w", expression, err.Error))
		}
	}
	for _, v := range append(transform.AllVariablesCEL(), variables...) {
		r := compiler.CompileAndStoreVariable(v, cel.OptionalVariableDeclarations{HasParams: true}, environment.StoredExpressions)
		said(v.GetExpression(), &r)
	}
	for _, list := range [][]cel.ExpressionAccessor{conditions, validations, messages} {
		for _, e := range list {
			if e != nil {
				r := compiler.CompileCELExpression(e, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
				said(e.GetExpression(), &r)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &problem{CompileFailed, err}
	}
	return nil
}

// CRD returns the definition of the constraints of a template.
func (s *Set) CRD(template *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return crd, contained(func() error {
		t, err := s.convert(template)
		if err != nil {
			return err
		}
		c, _, _, err := s.newClient()
		if err != nil {
			return err
		}
		internal, err := c.CreateCRD(context.Background(), t)
		if err != nil {
			return err
		}
		return apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(internal, crd, nil)
	})
}

// Check says why a template or a constraint would not load. A constraint is held against the template that is enforced.
// Whether data is synced is not checked: it may come later.
func (s *Set) Check(obj *unstructured.Unstructured) error {
	switch {
	case isTemplate(obj):
		return contained(func() error { return s.compile(context.Background(), &snapshot{name: obj.GetName()}, obj, true) })
	case !isConstraint(obj):
		return unsupported(obj)
	}
	p := s.serving(templateName(obj))
	if p == nil || p.client == nil {
		return &problem{NoTemplate, fmt.Errorf("template %s is not enforced", templateName(obj))}
	}
	return contained(func() error {
		err := p.client.ValidateConstraint(obj)
		if err == nil {
			_, err = s.target.ToMatcher(obj)
		}
		if err = cmp.Or(err, CheckAction(obj)); err != nil {
			return &problem{InvalidConstraint, err}
		}
		return nil
	})
}

// CheckAction refuses an action that is none. A Set takes any, as Gatekeeper does, and does nothing about a violation then.
func CheckAction(constraint *unstructured.Unstructured) error {
	action, _, err := unstructured.NestedString(constraint.Object, "spec", "enforcementAction")
	if err != nil || action == "" {
		return err
	}
	return util.ValidateEnforcementAction(util.EnforcementAction(action), constraint.Object)
}

// reject has next refuse the requests that a constraint would deny, of which nothing can be enforced. A stand-in for its
// template, violated by everything, has the framework decide which they are. It returns err and what becomes of them.
func (s *Set) reject(ctx context.Context, next *snapshot, constraint *unstructured.Unstructured, err error) error {
	preserve := true
	t := &templates.ConstraintTemplate{}
	t.Name = next.name
	t.Spec.CRD.Spec.Names.Kind = constraint.GetKind()
	t.Spec.CRD.Spec.Validation = &templates.Validation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}}
	t.Spec.Targets = []templates.Target{{Target: target.Name, Code: []templates.Code{{
		Engine: regoschema.Name,
		Source: &templates.Anything{Value: map[string]any{"rego": "package all\nviolation[{\"msg\": \"\"}] { true }"}},
	}}}}
	failed := contained(func() (err error) {
		c := next.rejects
		if c == nil {
			if c, _, _, err = s.newClient(); err != nil {
				return err
			}
			if _, err = c.AddTemplate(ctx, t); err != nil {
				return err
			}
			next.rejects = c
		}
		if _, err = c.AddConstraint(ctx, constraint.DeepCopy()); err == nil {
			next.noteKinds(constraint)
		}
		return err
	})
	var p *problem
	errors.As(err, &p) // as every error of load is one
	if failed != nil {
		return &problem{p.reason, fmt.Errorf("%w; none of the requests that it matches is rejected, because they cannot be told: %w", err, failed)}
	}
	return &problem{p.reason, fmt.Errorf("%w; requests that it would deny are rejected", err)}
}
