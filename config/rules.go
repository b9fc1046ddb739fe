package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Ruled is a section of a configuration that has rules for its values. Check finds
// values that break the rules, and Schema shows the rules to editors: each rule is
// written once.
type Ruled interface{ Rules() []Rule }

// Rule is about one key of a section.
type Rule struct {
	key   string
	test  func(value reflect.Value) error
	shape Shape // the same in a schema; nil where a schema cannot say it
	when  []Cond

	present bool // the key must be there, be it empty
}

// When returns the rule for sections in which every condition holds.
func (r Rule) When(conditions ...Cond) Rule {
	r.when = slices.Concat(r.when, conditions)
	return r
}

// Says returns the rule with message for every value that breaks it.
func (r Rule) Says(message string) Rule {
	test := r.test
	r.test = func(v reflect.Value) error {
		if test(v) == nil {
			return nil
		}
		return errors.New(message)
	}
	return r
}

// Required is the rule that key has a value; message says which.
func Required(key, message string) Rule {
	return Rule{key: key, shape: Shape{"minLength": 1, "minItems": 1, "exclusiveMinimum": 0}, test: func(v reflect.Value) error {
		if isEmpty(v) {
			return errors.New(message)
		}
		return nil
	}}
}

// Present is the rule that key is there, even if it is empty. Check cannot tell: the
// code that decodes the section must look.
func Present(key string) Rule {
	return Rule{key: key, shape: Shape{}, present: true, test: func(reflect.Value) error { return nil }}
}

// Forbidden is the rule that key has no value.
func Forbidden(key, message string) Rule {
	return Rule{key: key, shape: Shape{"enum": emptyValues}, test: func(v reflect.Value) error {
		if !isEmpty(v) {
			return errors.New(message)
		}
		return nil
	}}
}

// Only is the rule that key has this one text.
func Only(key, text, message string) Rule {
	return Rule{key: key, shape: Shape{"enum": anys([]string{text})}, test: func(v reflect.Value) error {
		if v.String() != text {
			return errors.New(message)
		}
		return nil
	}}
}

// OneOf is the rule that key has one of the known words.
func OneOf[S ~string](key string, known ...S) Rule {
	return Rule{key: key, shape: Shape{"enum": anys(known)}, test: func(v reflect.Value) error {
		return Choice(S(v.String()), known...)
	}}
}

// Text is the rule that check accepts the value of key, unless the value is empty. The
// shape says the same, as far as a schema can.
func Text[S ~string](key string, check func(S) error, shape Shape) Rule {
	return Rule{key: key, shape: shape, test: func(v reflect.Value) error {
		if v.String() == "" {
			return nil
		}
		return check(S(v.String()))
	}}
}

// Between is the rule that a number is in a range.
func Between(key string, least, most int) Rule {
	return number(key, Shape{"minimum": least, "maximum": most}, func(n int64) error {
		if n < int64(least) || n > int64(most) {
			return fmt.Errorf("must be between %d and %d", least, most)
		}
		return nil
	})
}

// AtLeast is the rule that a number has a lower bound.
func AtLeast(key string, least int) Rule {
	shape := Shape{"minimum": least}
	if least == 1 {
		shape["pattern"] = "[1-9]" // of a size
	}
	return number(key, shape, func(n int64) error {
		if n < int64(least) {
			return fmt.Errorf("must be at least %d", least)
		}
		return nil
	})
}

// Positive is the rule that a duration or number is more than 0.
func Positive(key string) Rule {
	return number(key, Shape{"pattern": "^[^-]*[1-9]", "exclusiveMinimum": 0}, func(n int64) error {
		if n <= 0 {
			return errors.New("must be positive")
		}
		return nil
	})
}

// NotNegative is the rule that a duration or number is 0 or more.
func NotNegative(key string) Rule {
	return number(key, Shape{"pattern": "^[^-]", "minimum": 0}, func(n int64) error {
		if n < 0 {
			return errors.New("must not be negative")
		}
		return nil
	})
}

func number(key string, shape Shape, test func(int64) error) Rule {
	return Rule{key: key, shape: shape, test: func(v reflect.Value) error { return test(v.Int()) }}
}

// Each is the rule that check accepts each text of the list at key. The pattern says
// the same, as far as a schema can.
func Each(key string, check func(string) error, pattern string) Rule {
	return Rule{key: key, shape: Shape{"items": Shape{"pattern": "^(?:" + pattern + ")$"}}, test: func(v reflect.Value) error {
		var p Problems
		for i := range v.Len() {
			p.Check(indexPath(i), check(v.Index(i).String()))
		}
		return p.Err()
	}}
}

// AtMost is the rule that a list has at most so many items.
func AtMost(key string, most int) Rule {
	return Rule{key: key, shape: Shape{"maxItems": most}, test: func(v reflect.Value) error {
		if v.Len() > most {
			return fmt.Errorf("must be at most %d", most)
		}
		return nil
	}}
}

// Shown is a rule of the schema alone. Check does not look: the code that checks the section
// applies the same rule.
func Shown(key string, shape Shape) Rule {
	return Rule{key: key, shape: shape, test: func(reflect.Value) error { return nil }}
}

// Cond is a condition on one key of a section.
type Cond struct {
	key    string
	values []string // empty: any value at all
	prefix string   // that the text begins with, where it is not empty
	not    bool
}

// Set holds where key has a value: not an empty one, 0 or false.
func Set(key string) Cond { return Cond{key: key} }

// Is holds where key has one of values.
func Is[S ~string](key string, values ...S) Cond {
	c := Cond{key: key}
	for _, v := range values {
		c.values = append(c.values, string(v))
	}
	return c
}

// Begins holds where the text at key begins with prefix, which has no special characters.
func Begins(key, prefix string) Cond { return Cond{key: key, prefix: prefix} }

// Not is the opposite of c.
func (c Cond) Not() Cond {
	c.not = !c.not
	return c
}

func (c Cond) holds(section reflect.Value) bool {
	v := member(section, c.key)
	switch {
	case c.prefix != "":
		return strings.HasPrefix(v.String(), c.prefix) != c.not
	case len(c.values) > 0:
		return slices.Contains(c.values, v.String()) != c.not
	}
	return isEmpty(v) == c.not
}

// Check reports values that break the rules of section and of the sections in it. If a
// value breaks several rules, Check reports the first. It does not compare two sections
// with each other.
func Check(section any) Problems {
	var p Problems
	check(&p, "", reflect.ValueOf(section))
	return p
}

func check(p *Problems, at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			check(p, at, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			check(p, at+indexPath(i), v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == nodeType {
			return
		}
		for _, rule := range rulesOf(v) {
			checkRule(p, at, v, rule)
		}
		fields, _ := fieldsOf(v.Type())
		for _, f := range fields {
			check(p, join(at, f.name), v.FieldByIndex(f.index))
		}
	}
}

func checkRule(p *Problems, at string, section reflect.Value, r Rule) {
	path := join(at, r.key)
	if slices.ContainsFunc(*p, func(found Problem) bool { return found.Path == path }) || !r.applies(section) {
		return
	}
	err := r.test(member(section, r.key))
	if items, ok := errors.AsType[Problems](err); ok {
		*p = append(*p, items.In(path)...)
		return
	}
	p.Check(path, err)
}

func (r Rule) applies(section reflect.Value) bool {
	return !slices.ContainsFunc(r.when, func(c Cond) bool { return !c.holds(section) })
}

// rulesOf returns the rules that the type of the struct v has, for this value.
func rulesOf(v reflect.Value) []Rule {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	if ruled, ok := p.Interface().(Ruled); ok {
		return ruled.Rules()
	}
	return nil
}

// member is the value at key of the struct section.
func member(section reflect.Value, key string) reflect.Value {
	fields, _ := fieldsOf(section.Type())
	for _, f := range fields {
		if f.name == key {
			return section.FieldByIndex(f.index)
		}
	}
	panic("config: rule for the unknown key " + strconv.Quote(key) + " of " + section.Type().String())
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}
