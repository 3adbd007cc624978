/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes durations of kernels from formulas: parses them into steps of a stack machine, and finds
 * them by kernel and shapes.
 */
#include "chip/cost.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pto/error.h"
#include "pto/recording.h"
#include "pto/status.h"

enum { STEPS_MAX = 64, NESTED_MAX = 16, COST_NAME = 64, MEASURED_MIN = 64 };

#define COST_NS_MAX 1e15 /* maximum duration of one kernel in ns, more than eleven days */

enum cost_op {
    COST_NUMBER,
    COST_ADD,
    COST_SUBTRACT,
    COST_MULTIPLY,
    COST_DIVIDE,
    COST_MIN,
    COST_MAX,
    COST_ELEMENTS,
    COST_BYTES,
    COST_DIM,
    COST_SCALAR,
    COST_BLOCKS,
};

struct cost_step {
    enum cost_op op;
    uint32_t index, dim;
    double value;
};

struct formula {
    uint32_t count;
    struct cost_step step[STEPS_MAX];
};

struct cost_row {
    char *kernel;
    char *origin;
    uint64_t shapes;
    uint32_t order; /* index in the caller's list of costs */
    bool is_used;   /* the row was used since cost_model_begin */
    struct formula formula;
};

/*
 * The rows of a model for one kernel: first rows for certain shapes, sorted by shapes, then `any`,
 * the row for all other shapes.
 */
struct cost_kernel {
    /*
     * first COST_NAME - 1 characters of the kernel's name; a copy, because the callable may be
     * destroyed
     */
    char name[COST_NAME];
    uint32_t first, count; /* range in the model's `row` where this kernel's rows are */
    struct cost_row *any;
    bool has_default;  /* since cost_model_begin, the default duration was used for the kernel */
    bool has_measured; /* since cost_model_begin, a measured duration was used for the kernel */
};

/* What was measured for a kernel with certain shapes and scalars. */
struct cost_measured {
    uint64_t key;
    int status; /* result of `measure`; 0: there is no duration */
    bool is_used;
    uint64_t ns;
};

struct cost_model {
    struct pto_virtual_options options; /* the caller's options, without the list of costs */
    uint32_t row_count;
    struct cost_row *row; /* sorted by kernel, then by shapes, then in the caller's order */
    struct cost_kernel *kernel;
    uint32_t kernel_count;
    struct cost_measured *measured; /* a hash table with open addressing */
    uint32_t measured_count, measured_max;
};

/* ---- formulas ---- */

struct parser {
    const char *at;
    struct formula *formula;
    const char *wrong; /* description of the first error in the formula; NULL: none so far */
    uint32_t depth;
};

static void parse_sum(struct parser *p);

static void cost_skip_blanks(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool cost_take(struct parser *p, char c)
{
    cost_skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static void cost_refuse(struct parser *p, const char *wrong)
{
    if (p->wrong == NULL)
        p->wrong = wrong;
}

static void cost_put_step(struct parser *p, struct cost_step step)
{
    if (p->formula->count == STEPS_MAX)
        cost_refuse(p, "the formula is too long");
    else
        p->formula->step[p->formula->count++] = step;
}

static uint32_t parse_index(struct parser *p)
{
    char *end;
    unsigned long value;

    cost_skip_blanks(p);
    value = isdigit((unsigned char)*p->at) ? strtoul(p->at, &end, 10) : UINT32_MAX;
    if (value > UINT16_MAX) {
        cost_refuse(p, "an argument is named by its number, from 0 on");
        return 0;
    }
    p->at = end;
    return (uint32_t)value;
}

static void parse_call(struct parser *p, enum cost_op op)
{
    struct cost_step step = { .op = op };

    if (!cost_take(p, '('))
        cost_refuse(p, "a function needs its arguments in parentheses");
    if (op == COST_MIN || op == COST_MAX) {
        parse_sum(p);
        if (!cost_take(p, ','))
            cost_refuse(p, "min and max have two arguments");
        parse_sum(p);
    } else {
        step.index = parse_index(p);
        if (op == COST_DIM && !cost_take(p, ','))
            cost_refuse(p, "dim has two arguments: numbers of a tensor and of a dimension");
        if (op == COST_DIM)
            step.dim = parse_index(p);
    }
    if (!cost_take(p, ')'))
        cost_refuse(p, "a closing parenthesis is missing");
    cost_put_step(p, step);
}

static void cost_parse_name(struct parser *p)
{
    static const struct {
        const char *name;
        enum cost_op op;
    } functions[] = { { "min", COST_MIN },      { "max", COST_MAX }, { "elements", COST_ELEMENTS },
                      { "bytes", COST_BYTES },  { "dim", COST_DIM }, { "scalar", COST_SCALAR },
                      { "blocks", COST_BLOCKS } };
    size_t length = 0;

    while (isalnum((unsigned char)p->at[length]) || p->at[length] == '_')
        length++;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strlen(functions[i].name) == length && strncmp(functions[i].name, p->at, length) == 0) {
            p->at += length;
            if (functions[i].op == COST_BLOCKS)
                cost_put_step(p, (struct cost_step){ .op = COST_BLOCKS });
            else
                parse_call(p, functions[i].op);
            return;
        }
    cost_refuse(p, length != 0
                       ? "a formula may name only min, max, elements, bytes, dim, scalar and blocks"
                       : "a number or a function is missing");
}

static void cost_parse_number(struct parser *p)
{
    char *end;
    double value = strtod(p->at, &end);

    p->at = end;
    if (strncmp(end, "ns", 2) == 0)
        p->at += 2;
    else if (strncmp(end, "us", 2) == 0)
        p->at += 2, value *= 1e3;
    else if (strncmp(end, "ms", 2) == 0)
        p->at += 2, value *= 1e6;
    cost_put_step(p, (struct cost_step){ .op = COST_NUMBER, .value = value });
}

static void parse_factor(struct parser *p)
{
    cost_skip_blanks(p);
    if (++p->depth > NESTED_MAX) {
        cost_refuse(p, "the formula is nested too deeply");
    } else if (cost_take(p, '(')) {
        parse_sum(p);
        if (!cost_take(p, ')'))
            cost_refuse(p, "a closing parenthesis is missing");
    } else if (isdigit((unsigned char)*p->at) || *p->at == '.') {
        cost_parse_number(p);
    } else {
        cost_parse_name(p);
    }
    p->depth--;
}

static void parse_product(struct parser *p)
{
    parse_factor(p);
    while (p->wrong == NULL) {
        enum cost_op op = cost_take(p, '*')   ? COST_MULTIPLY
                          : cost_take(p, '/') ? COST_DIVIDE
                                              : COST_NUMBER;

        if (op == COST_NUMBER)
            return;
        parse_factor(p);
        cost_put_step(p, (struct cost_step){ .op = op });
    }
}

static void parse_sum(struct parser *p)
{
    parse_product(p);
    while (p->wrong == NULL) {
        enum cost_op op = cost_take(p, '+')   ? COST_ADD
                          : cost_take(p, '-') ? COST_SUBTRACT
                                              : COST_NUMBER;

        if (op == COST_NUMBER)
            return;
        parse_product(p);
        cost_put_step(p, (struct cost_step){ .op = op });
    }
}

/* Parses a formula. Returns NULL, or a text that describes its defect. */
static const char *parse_formula(const char *text, struct formula *formula)
{
    struct parser p = { .at = text, .formula = formula };

    formula->count = 0;
    parse_sum(&p);
    cost_skip_blanks(&p);
    if (*p.at != '\0')
        cost_refuse(&p, "text follows the end of the formula");
    return p.wrong;
}

/*
 * Returns the number that a step of a formula pushes; NaN if the invocation has no such argument.
 */
static double value_of(const struct cost_step *step, const struct cost_arguments *args)
{
    const struct pto_tensor *t;

    if (step->op == COST_NUMBER)
        return step->value;
    if (step->op == COST_BLOCKS)
        return args->block_count;
    if (step->op == COST_SCALAR)
        return step->index < args->scalar_count ? (double)(int64_t)args->scalar[step->index] : NAN;
    if (step->index >= args->tensor_count)
        return NAN;
    t = &args->tensor[step->index];
    if (step->op == COST_DIM)
        return step->dim < t->ndims ? (double)t->shapes[step->dim] : NAN;
    return (double)pto_tensor_numel(t) *
           (step->op == COST_BYTES ? (double)pto_dtype_size(t->dtype) : 1.0);
}

/* Returns the lesser of two numbers; NaN if one of them is NaN. */
static double lesser(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

static double cost_evaluate(const struct formula *f, const struct cost_arguments *args)
{
    double stack[STEPS_MAX], b;
    uint32_t count = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        enum cost_op op = f->step[i].op;

        if (op == COST_NUMBER || op >= COST_ELEMENTS) {
            stack[count++] = value_of(&f->step[i], args);
            continue;
        }
        b = stack[--count];
        stack[count - 1] = op == COST_ADD        ? stack[count - 1] + b
                           : op == COST_SUBTRACT ? stack[count - 1] - b
                           : op == COST_MULTIPLY ? stack[count - 1] * b
                           : op == COST_DIVIDE   ? stack[count - 1] / b
                           : op == COST_MIN      ? lesser(stack[count - 1], b)
                                                 : -lesser(-stack[count - 1], -b);
    }
    return stack[0];
}

/* ---- cost models ---- */

static int cost_compare_rows(const void *a, const void *b)
{
    const struct cost_row *x = a, *y = b;
    int by_name = strcmp(x->kernel, y->kernel);

    if (by_name != 0)
        return by_name;
    if (x->shapes != y->shapes)
        return x->shapes < y->shapes ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int copy_row(struct cost_model *model, const struct pto_virtual_cost *cost,
                    struct pto_error *error)
{
    struct cost_row *row = &model->row[model->row_count];
    const char *wrong;

    if (cost->kernel == NULL || cost->formula == NULL)
        return error_setf(error, PTO_EINVAL, "cost %u has no kernel, or no formula",
                          model->row_count);
    row->kernel = strdup(cost->kernel);
    row->origin = strdup(cost->origin != NULL ? cost->origin : "given");
    row->shapes = cost->shapes;
    row->order = model->row_count++;
    if (row->kernel == NULL || row->origin == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for the costs of kernels");
    wrong = parse_formula(cost->formula, &row->formula);
    return wrong == NULL ? PTO_OK
                         : error_setf(error, PTO_EINVAL, "the cost of kernel %.80s is '%.120s': %s",
                                      cost->kernel, cost->formula, wrong);
}

int cost_model_create(const struct pto_virtual_options *options, struct cost_model **model_out,
                      struct pto_error *error)
{
    struct cost_model *model = calloc(1, sizeof(*model));
    int status = PTO_OK;

    if (model != NULL)
        model->row = calloc(options->cost_count + 1, sizeof(*model->row));
    if (model == NULL || model->row == NULL) {
        free(model);
        return error_setf(error, PTO_ENOMEM, "there is no memory for the costs of kernels");
    }
    model->options = *options;
    model->options.cost = NULL;
    model->options.cost_count = 0;
    for (uint32_t i = 0; i < options->cost_count && status >= 0; i++)
        status = copy_row(model, &options->cost[i], error);
    if (status < 0) {
        cost_model_destroy(model);
        return status;
    }
    qsort(model->row, model->row_count, sizeof(*model->row), cost_compare_rows);
    *model_out = model;
    return PTO_OK;
}

void cost_model_destroy(struct cost_model *model)
{
    if (model == NULL)
        return;
    for (uint32_t i = 0; i < model->row_count; i++) {
        free(model->row[i].kernel);
        free(model->row[i].origin);
    }
    free(model->row);
    free(model->kernel);
    free(model->measured);
    free(model);
}

const struct pto_virtual_options *cost_model_options(const struct cost_model *model)
{
    return &model->options;
}

/* Finds the range of rows whose kernel has this name. */
static void find_rows(struct cost_model *model, const char *name, struct cost_kernel *kernel)
{
    uint32_t low = 0, high = model->row_count;

    memset(kernel, 0, sizeof(*kernel));
    snprintf(kernel->name, sizeof(kernel->name), "%s", name);
    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (strcmp(model->row[middle].kernel, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    kernel->first = low;
    while (low < model->row_count && strcmp(model->row[low].kernel, name) == 0)
        low++;
    kernel->count = low - kernel->first;
    /*
     * `shapes` is 0 in rows for any shapes, so these rows are first; only the first of them is used
     */
    if (kernel->count != 0 && model->row[kernel->first].shapes == 0)
        kernel->any = &model->row[kernel->first];
}

int cost_model_bind(struct cost_model *model, const char *const *name, uint32_t name_count,
                    uint32_t count)
{
    struct cost_kernel *kernel = realloc(model->kernel, (count + 1) * sizeof(*kernel));

    if (kernel == NULL)
        return PTO_ENOMEM;
    model->kernel = kernel;
    model->kernel_count = count;
    for (uint32_t i = 0; i < count; i++)
        find_rows(model, i < name_count && name[i] != NULL ? name[i] : "", &kernel[i]);
    return PTO_OK;
}

void cost_model_begin(struct cost_model *model)
{
    for (uint32_t i = 0; i < model->row_count; i++)
        model->row[i].is_used = false;
    for (uint32_t i = 0; i < model->kernel_count; i++)
        model->kernel[i].has_default = model->kernel[i].has_measured = false;
}

/* Returns the first row of the kernel for exactly these shapes; NULL: there is none. */
static struct cost_row *find_shapes(struct cost_model *model, const struct cost_kernel *kernel,
                                    uint64_t shapes)
{
    uint32_t low = kernel->first, high = kernel->first + kernel->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (model->row[middle].shapes < shapes)
            low = middle + 1;
        else
            high = middle;
    }
    return low < kernel->first + kernel->count && model->row[low].shapes == shapes
               ? &model->row[low]
               : NULL;
}

/* ---- measured durations ---- */

static struct cost_measured *find_measured(struct cost_measured *table, uint32_t max, uint64_t key)
{
    uint64_t at = (key ^ key >> 32) & (max - 1);

    while (table[at].is_used && table[at].key != key)
        at = (at + 1) & (max - 1);
    return &table[at];
}

/* Makes room for one more measured duration. False: out of memory. */
static bool grow_measured(struct cost_model *model)
{
    uint32_t max = model->measured_max != 0 ? 2 * model->measured_max : MEASURED_MIN;
    struct cost_measured *grown;

    if (2 * (model->measured_count + 1) <= model->measured_max)
        return true;
    grown = calloc(max, sizeof(*grown));
    if (grown == NULL)
        return false;
    for (uint32_t i = 0; i < model->measured_max; i++)
        if (model->measured[i].is_used)
            *find_measured(grown, max, model->measured[i].key) = model->measured[i];
    free(model->measured);
    model->measured = grown;
    model->measured_max = max;
    return true;
}

/*
 * Returns the measured duration of a kernel with these shapes. The function `measure` of the
 * options is called only once for them.
 */
static int cost_measure(struct cost_model *model, uint32_t kernel, uint64_t shapes,
                        const struct cost_arguments *args, uint64_t *ns_out)
{
    struct cost_kernel *k = &model->kernel[kernel];
    struct cost_measured *m;

    if (!grow_measured(model))
        return PTO_ENOMEM;
    m = find_measured(model->measured, model->measured_max,
                      (shapes + kernel) * 0x9e3779b97f4a7c15ull);
    if (!m->is_used) {
        m->is_used = true;
        m->key = (shapes + kernel) * 0x9e3779b97f4a7c15ull;
        m->status =
            model->options.measure(model->options.measure_context, k->name, args->vector, &m->ns);
        model->measured_count++;
    }
    k->has_measured = k->has_measured || m->status > 0;
    *ns_out = m->ns;
    return m->status;
}

bool cost_model_ns(struct cost_model *model, uint32_t kernel, const struct cost_arguments *args,
                   uint64_t *ns_out)
{
    struct cost_kernel *k = &model->kernel[kernel];
    struct cost_row *row = k->any, *exact = NULL;
    bool is_measured = model->options.measure != NULL && args->vector != NULL;
    bool has_shapes = k->count != 0 && model->row[k->first + k->count - 1].shapes != 0;
    uint64_t shapes = 0;
    double ns;

    if (has_shapes || is_measured)
        shapes =
            pto_virtual_shapes(args->tensor, args->tensor_count, args->scalar, args->scalar_count);
    if (has_shapes)
        exact = find_shapes(model, k, shapes);
    if (exact == NULL && is_measured) { /* mutation: cost-measured */
        int status = cost_measure(model, kernel, shapes, args, ns_out);

        if (status != 0)
            return status > 0 && (double)*ns_out < COST_NS_MAX;
    }
    row = exact != NULL ? exact : row;
    if (row == NULL) {
        k->has_default = true;
        *ns_out = model->options.kernel_ns;
        return true;
    }
    row->is_used = true;
    ns = row->formula.count == 1 && row->formula.step[0].op == COST_NUMBER
             ? row->formula.step[0].value
             : cost_evaluate(&row->formula, args);
    *ns_out = ns >= 0 && ns < COST_NS_MAX ? (uint64_t)(ns + 0.5) : 0;
    return ns >= 0 && ns < COST_NS_MAX;
}

const char *cost_model_name(const struct cost_model *model, uint32_t kernel)
{
    return kernel < model->kernel_count ? model->kernel[kernel].name : "";
}

/* Writes the origins of the used rows, separated by commas, each different text once. */
void cost_model_origin(const struct cost_model *model, uint32_t kernel, char *text, size_t size)
{
    const struct cost_kernel *k = &model->kernel[kernel];
    const char *last = NULL;
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = k->first; i < k->first + k->count; i++) {
        const char *origin = model->row[i].origin;

        if (!model->row[i].is_used || (last != NULL && strcmp(last, origin) == 0))
            continue;
        last = origin;
        if (length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s",
                                       length != 0 ? ", " : "", origin);
    }
    if (k->has_measured && length < size)
        length += (size_t)snprintf(
            text + length, size - length, "%s%s", length != 0 ? ", " : "",
            model->options.measure_origin != NULL ? model->options.measure_origin : "measured");
    if (k->has_default && length < size)
        (void)snprintf(text + length, size - length, "%sdefault", length != 0 ? ", " : "");
}

uint8_t cost_model_kind(const struct cost_model *model, uint32_t kernel)
{
    const struct cost_kernel *k = &model->kernel[kernel];
    uint8_t kind = PTO_RECORDING_ORIGIN_DEFAULT;

    for (uint32_t i = k->first; i < k->first + k->count; i++)
        if (model->row[i].is_used)
            kind =
                model->row[i].shapes != 0 ? PTO_RECORDING_ORIGIN_MEDIAN : PTO_RECORDING_ORIGIN_COST;
    return k->has_measured ? PTO_RECORDING_ORIGIN_MODEL : kind;
}

/* ---- shapes ---- */

uint64_t pto_virtual_shapes(const struct pto_tensor *tensor, uint32_t tensor_count,
                            const uint64_t *scalar, uint32_t scalar_count)
{
    const uint64_t prime = 0x9e3779b97f4a7c15ull;
    uint64_t sum = tensor_count + ((uint64_t)scalar_count << 32);

    for (uint32_t i = 0; i < tensor_count; i++) {
        sum = (sum ^ (tensor[i].dtype | (uint64_t)tensor[i].ndims << 32)) * prime;
        sum ^= sum >> 29;
        for (uint32_t d = 0; d < tensor[i].ndims && d < PTO_MAX_DIMS; d++) {
            sum = (sum ^ tensor[i].shapes[d]) * prime;
            sum ^= sum >> 31;
        }
    }
    for (uint32_t i = 0; i < scalar_count; i++) {
        sum = (sum ^ scalar[i]) * prime;
        sum ^= sum >> 32;
    }
    return sum != 0 ? sum : 1;
}
