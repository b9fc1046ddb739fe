package main

import (
	"fmt"
	"strings"
)

// enginePolicies are so many templates with a constraint each, Rego and CEL in turn, all of which look at a
// Deployment, and those in Rego at a ConfigMap. The first denies what newReview calls denied.
func enginePolicies(n int) (templates, constraints string) {
	var t, c []string
	for i := range n {
		prefix := fmt.Sprintf("other%d-", i)
		if i == 0 {
			prefix = deniedName
		}
		// What CEL is asked about here a ConfigMap does not have.
		code, also := regoPolicy, `, {apiGroups: [""], kinds: [ConfigMap]}`
		if i%2 == 1 {
			code, also = celPolicy, ""
		}
		fill := strings.NewReplacer("NUMBER", fmt.Sprint(i), "PREFIX", prefix, "CODE", code, "ALSO", also)
		t, c = append(t, fill.Replace(fill.Replace(engineTemplate))), append(c, fill.Replace(engineConstraint))
	}
	return strings.Join(t, "---\n"), strings.Join(c, "---\n")
}

const engineTemplate = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: benchNUMBER}
spec:
  crd:
    spec:
      names: {kind: BenchNUMBER}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            prefix: {type: string}
            labels: {type: array, items: {type: string}}
            most: {type: integer}
  targets:
  - target: admission.k8s.gatekeeper.sh
CODE`

const regoPolicy = `    rego: |
      package benchNUMBER

      violation[{"msg": msg, "details": {"missing": missing}}] {
        has := {label | input.review.object.metadata.labels[label]}
        missing := {label | label := input.parameters.labels[_]} - has
        count(missing) > 0
        msg := sprintf("lacks the labels %v", [missing])
      }

      violation[{"msg": msg}] {
        startswith(input.review.object.metadata.name, input.parameters.prefix)
        msg := sprintf("%v is a name that nobody may have", [input.review.object.metadata.name])
      }
`

const celPolicy = `    code:
    - engine: K8sNativeValidation
      source:
        variables:
        - {name: containers, expression: variables.anyObject.spec.template.spec.containers}
        validations:
        - {expression: variables.anyObject.spec.replicas <= variables.params.most, message: has too many replicas}
        - expression: '!variables.anyObject.metadata.name.startsWith(variables.params.prefix)'
          messageExpression: 'variables.anyObject.metadata.name + " is a name that nobody may have"'
        - {expression: 'variables.containers.all(c, has(c.image))', message: has a container without an image}
`

const engineConstraint = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: BenchNUMBER
metadata: {name: bench-NUMBER}
spec:
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}ALSO]}
  parameters: {prefix: PREFIX, labels: [app, tier], most: 5}
`
