// SPDX-License-Identifier: Apache-2.0
/*
 * The arguments of a task, and the result of a submit. An Arg holds struct pto_args, which
 * the runtime takes directly: a submit copies only the launch spec.
 */
#ifndef PTO_SIMPLER_TYPES_H
#define PTO_SIMPLER_TYPES_H

// Code tests whether this name is defined, to learn whether the API says "cores" for blocks.
#if defined(PTO_FOR_A5) && !defined(PTO_FOR_HOST)
#define SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_
#endif

#ifndef SIMPLER_DFX
#define SIMPLER_DFX 1
#endif
#ifndef SIMPLER_ORCH_PROFILING
#define SIMPLER_ORCH_PROFILING 0
#endif
#ifndef SIMPLER_SCHED_PROFILING
#define SIMPLER_SCHED_PROFILING 0
#endif
#ifndef SIMPLER_TENSORMAP_PROFILING
#define SIMPLER_TENSORMAP_PROFILING 0
#endif

#include <cstddef>
#include <string>

#include "pto_submit_types.h"
#include "tensor_create_info.h"

inline constexpr int CORE_MAX_TENSOR_ARGS = PTO_TASK_TENSORS_MAX;
inline constexpr int CORE_MAX_SCALAR_ARGS = PTO_TASK_SCALARS_MAX;
inline constexpr int CHIP_MAX_TENSOR_ARGS = PTO_ENTRY_TENSORS_MAX;
inline constexpr int CHIP_MAX_SCALAR_ARGS = PTO_ENTRY_SCALARS_MAX;
#define MAX_TENSOR_ARGS CORE_MAX_TENSOR_ARGS
#define MAX_SCALAR_ARGS CORE_MAX_SCALAR_ARGS
inline constexpr int NUM_TASK_TIMING_SLOTS = PTO_TIMING_SLOTS;
inline constexpr int TASK_TIMING_SLOT_NONE = -1;

enum class PTO2ScopeMode : uint8_t { AUTO, MANUAL };

// Kinds of explicit dependencies: enum pto_dep_kind.
enum DepFlags : uint8_t { DEP_NONE = 0, DEP_WAIT = 1, DEP_RETAIN = 2 };

constexpr DepFlags operator|(DepFlags a, DepFlags b)
{
    return static_cast<DepFlags>(uint8_t{ a } | uint8_t{ b });
}
constexpr DepFlags operator&(DepFlags a, DepFlags b)
{
    return static_cast<DepFlags>(uint8_t{ a } & uint8_t{ b });
}
constexpr DepFlags &operator|=(DepFlags &a, DepFlags b)
{
    return a = a | b;
}
constexpr bool dep_has_wait(DepFlags f)
{
    return (f & DEP_WAIT) != DEP_NONE;
}
constexpr bool dep_has_retain(DepFlags f)
{
    return (f & DEP_RETAIN) != DEP_NONE;
}

/*
 * The outputs of a submit, in the order of the calls of add_output(TensorCreateInfo). Valid until
 * the scope of the submit ends.
 */
class TaskOutputTensors
{
  public:
    TaskOutputTensors() : out_{ { PTO_TASK_ID_INVALID }, 0, nullptr }
    {
    }
    explicit TaskOutputTensors(const struct pto_outputs &out) : out_(out)
    {
    }

    bool empty() const
    {
        return out_.count == 0;
    }
    uint32_t size() const
    {
        return out_.count;
    }
    const ChipTensor &get_ref(uint32_t index) const &
    {
        always_assert(index < out_.count);
        return reinterpret_cast<const ChipTensor *>(out_.tensor)[index];
    }
    const ChipTensor &get_ref(uint32_t index) const && = delete;
    PTO2TaskId task_id() const
    {
        return PTO2TaskId{ out_.task.raw };
    }

  private:
    struct pto_outputs out_;
};

// One slot of an Arg: a tensor, or the create info of an output.
class TensorRef
{
  public:
    const ChipTensor &ref() const
    {
        return *static_cast<const ChipTensor *>(at_);
    }
    const TensorCreateInfo &create_info() const
    {
        return *static_cast<const TensorCreateInfo *>(at_);
    }
    bool refers_to(const void *object) const
    {
        return at_ == object;
    }

  private:
    const void *at_;
};

namespace simpler
{

// The fields of struct pto_args that Arg uses, for other maximum numbers of arguments.
template <size_t MaxT, size_t MaxS> struct ArgFields {
    uint32_t tensor_count;
    uint32_t scalar_count;
    int32_t block_count;
    int32_t timing_slot;
    uint32_t dep_count;
    const char *error;
    const struct pto_predicate *predicate;
    const struct pto_task_id *deps;
    const uint8_t *dep_kinds;
    uint32_t output_count;
    bool is_sync_start;
    bool allow_early_resolve;
    bool has_scalar_types;
    uint8_t tag[MaxT];
    const void *tensor[MaxT];
    uint64_t scalar[MaxS];
    uint8_t scalar_type[MaxS];
};

template <> struct ArgFields<PTO_TASK_TENSORS_MAX, PTO_TASK_SCALARS_MAX> : pto_args {
};
using TaskFields = ArgFields<PTO_TASK_TENSORS_MAX, PTO_TASK_SCALARS_MAX>;

inline void clear(TaskFields &args)
{
    pto_args_init(&args);
}

template <size_t MaxT, size_t MaxS> void clear(ArgFields<MaxT, MaxS> &args)
{
    args = {};
    args.block_count = 1;
    args.timing_slot = TASK_TIMING_SLOT_NONE;
}

/*
 * Returns a bit for each argument that is marked for a dump: tensors from bit 0 on, then scalars.
 * Only arguments of tasks can be marked.
 */
inline uint64_t marked(const TaskFields &args)
{
    return args.is_marked
               ? args.marked_tensors | uint64_t{ args.marked_scalars } << args.tensor_count
               : 0;
}

template <size_t MaxT, size_t MaxS> uint64_t marked(const ArgFields<MaxT, MaxS> &)
{
    return 0;
}

inline void mark(TaskFields &args, uint32_t index, bool is_ambiguous)
{
    pto_dump(&args, index);
    if (is_ambiguous)
        args.ambiguous_scalars =
            static_cast<uint16_t>(args.ambiguous_scalars | 1u << (index - args.tensor_count));
}

template <size_t MaxT, size_t MaxS> void mark(ArgFields<MaxT, MaxS> &, uint32_t, bool)
{
}

} // namespace simpler

template <size_t MaxT, size_t MaxS> struct Arg {
    bool has_error{ false };
    PTO2LaunchSpec launch_spec; // not changed by clear and reset
    const char *error_msg{ nullptr };

    Arg()
    {
        simpler::clear(fields_);
    }
    Arg(const Arg &) = delete;
    Arg &operator=(const Arg &) = delete;

    template <typename... Args> void add_input(Args &&...args)
    {
        check_tensors<Args...>();
        add<PTO_TAG_INPUT>(args...);
    }
    template <typename... Args> void add_inout(Args &&...args)
    {
        check_tensors<Args...>();
        add<PTO_TAG_INOUT>(args...);
    }
    template <typename... Args> void add_no_dep(Args &&...args)
    {
        check_tensors<Args...>();
        add<PTO_TAG_NO_DEP>(args...);
    }
    /*
     * Adds outputs: either tensors that exist, or create infos of tensors for the runtime to
     * allocate.
     */
    template <typename... Args> void add_output(Args &&...args)
    {
        if constexpr ((std::is_same_v<std::decay_t<Args>, TensorCreateInfo> && ...)) {
            check_lvalues<Args...>();
            if (add<PTO_TAG_OUTPUT>(args...))
                fields_.output_count += sizeof...(Args);
        } else {
            check_tensors<Args...>();
            add<PTO_TAG_OUTPUT_EXISTING>(args...);
        }
    }

    // Adds scalars, which follow the tensors. dump() recognises scalars that are not temporaries.
    template <typename... Args> void add_scalar(Args &&...args)
    {
        static_assert(sizeof...(Args) >= 1, "add_scalar takes one or more values");
        static_assert((is_supported_scalar_arg_v<Args> && ...),
                      "add_scalar takes numbers and enumerators");
        if (has_scalar_room(sizeof...(Args)))
            (add_one_scalar<Args>(args), ...);
    }
    void add_scalars(const uint64_t *values, int count)
    {
        if (has_scalar_room(count))
            for (int i = 0; i < count; i++)
                add_one_scalar<uint64_t>(values[i]);
    }
    // Adds scalars that are zero-extended: -1 becomes 0xffffffff.
    void add_scalars_i32(const int32_t *values, int count)
    {
        if (has_scalar_room(count))
            for (int i = 0; i < count; i++)
                add_one_scalar<int32_t>(values[i]);
    }
    void copy_scalars_from(const Arg &src, int src_offset, int count)
    {
        if (src_offset < 0 || count < 0 || src_offset + count > src.scalar_count())
            set_error("copy_scalars_from: the other Arg does not have these scalars");
        else
            copy_scalars(src, static_cast<uint32_t>(src_offset), count);
    }

    // Sets the tasks to wait for. The arrays must live until the submit. A count of 0 removes them.
    void set_dependencies(const PTO2TaskId *deps, uint32_t count)
    {
        keep_dependencies(deps, nullptr, count, false);
    }
    void set_dependencies_with_kinds(const PTO2TaskId *deps, const DepFlags *kinds, uint32_t count)
    {
        keep_dependencies(deps, kinds, count, true);
    }
    uint32_t explicit_dep_count() const
    {
        return fields_.dep_count;
    }
    PTO2TaskId explicit_dep(uint32_t index) const
    {
        always_assert(index < fields_.dep_count);
        return explicit_deps_data()[index];
    }
    DepFlags explicit_dep_kind(uint32_t index) const
    {
        always_assert(index < fields_.dep_count);
        return fields_.dep_kinds == nullptr ? DEP_WAIT | DEP_RETAIN
                                            : static_cast<DepFlags>(fields_.dep_kinds[index]);
    }
    const PTO2TaskId *explicit_deps_data() const
    {
        return reinterpret_cast<const PTO2TaskId *>(fields_.deps);
    }

    void set_allow_early_resolve(bool v = true)
    {
        fields_.allow_early_resolve = v;
    }
    bool allow_early_resolve() const
    {
        return fields_.allow_early_resolve;
    }

    void set_predicate(const CoreTaskPredicate &pred)
    {
        std::memcpy(&predicate_, &pred, sizeof(predicate_));
        fields_.predicate = pred.op == PredicateOp::NONE ? nullptr : &predicate_;
    }
    const CoreTaskPredicate &predicate() const
    {
        static const CoreTaskPredicate none;

        return fields_.predicate == nullptr
                   ? none
                   : *reinterpret_cast<const CoreTaskPredicate *>(fields_.predicate);
    }

    void set_task_timing_slot(int32_t slot)
    {
        if (slot < 0 || slot >= NUM_TASK_TIMING_SLOTS)
            set_error("a timing slot is not one of 0 to 15");
        else
            fields_.timing_slot = slot;
    }
    int32_t task_timing_slot() const
    {
        return fields_.timing_slot;
    }

    // Marks these arguments of the task for a dump; without arguments, all of them.
    template <typename... Args> void dump(Args &&...args)
    {
        static_assert((std::is_lvalue_reference_v<Args> && ...),
                      "dump: temporaries are not allowed; pass the objects that were added");
        if constexpr (sizeof...(Args) == 0)
            mark_all();
        else
            (mark(args), ...);
    }
    uint64_t dump_arg_mask() const
    {
        return simpler::marked(fields_);
    }

    int32_t tensor_count() const
    {
        return static_cast<int32_t>(fields_.tensor_count);
    }
    int32_t scalar_count() const
    {
        return static_cast<int32_t>(fields_.scalar_count);
    }
    const TensorRef &tensor(int32_t i) const
    {
        return tensor_data()[i];
    }
    TensorArgType tag(int32_t i) const
    {
        return tag_data()[i];
    }
    const uint64_t &scalar(int32_t i) const
    {
        return fields_.scalar[i];
    }
    uint64_t &scalar(int32_t i)
    {
        return fields_.scalar[i];
    }
    const uint64_t *scalars() const
    {
        return fields_.scalar;
    }
    const uint64_t *scalar_data() const
    {
        return fields_.scalar;
    }
    const TensorRef *tensor_data() const
    {
        return reinterpret_cast<const TensorRef *>(fields_.tensor);
    }
    const TensorArgType *tag_data() const
    {
        return reinterpret_cast<const TensorArgType *>(fields_.tag);
    }

    // Keeps the first error, which the submit reports.
    void set_error(const char *msg)
    {
        if (has_error)
            return;
        has_error = true;
        error_msg = msg;
        fields_.error = msg != nullptr ? msg : "an argument is wrong";
    }
    void clear()
    {
        const char *error = fields_.error;

        simpler::clear(fields_);
        fields_.error = error;
    }
    void reset()
    {
        clear();
        has_error = false;
        error_msg = nullptr;
        fields_.error = nullptr;
    }

    // Returns the fields that a submit passes to the runtime.
    const simpler::ArgFields<MaxT, MaxS> *launched() const
    {
        launch_spec.put(fields_);
        return &fields_;
    }

  protected:
    mutable simpler::ArgFields<MaxT, MaxS> fields_;

  private:
    struct pto_predicate predicate_;  // valid if `fields_` points to this predicate
    const void *scalar_source_[MaxS]; // variable that each scalar came from; NULL: a temporary

    template <typename... Args> static constexpr void check_lvalues()
    {
        static_assert(sizeof...(Args) >= 1, "takes one or more arguments");
        static_assert((std::is_lvalue_reference_v<Args> && ...),
                      "temporaries are not allowed: their addresses are kept until the submit");
    }
    template <typename... Args> static constexpr void check_tensors()
    {
        check_lvalues<Args...>();
        static_assert((std::is_same_v<std::decay_t<Args>, ChipTensor> && ...),
                      "all arguments must be ChipTensor; those of add_output may all be "
                      "TensorCreateInfo instead");
    }

    static const char *tensors_text()
    {
        static const std::string text = "more than " + std::to_string(MaxT) + " tensors";

        return text.c_str();
    }
    static const char *scalars_text()
    {
        static const std::string text = "more than " + std::to_string(MaxS) + " scalars";

        return text.c_str();
    }

    template <int Tag, typename... Args> bool add(Args &...args)
    {
        uint32_t at = fields_.tensor_count;

        if (__builtin_expect(fields_.scalar_count != 0, 0)) {
            set_error("a tensor was added after a scalar: add_input, add_output, add_inout called "
                      "after add_scalar");
            return false;
        }
        if (__builtin_expect(at + sizeof...(Args) > MaxT, 0)) {
            set_error(tensors_text());
            return false;
        }
        ((fields_.tensor[at] = &args, fields_.tag[at] = Tag, at++), ...);
        fields_.tensor_count = at;
        return true;
    }

    bool has_scalar_room(int64_t count)
    {
        if (count >= 0 && fields_.scalar_count + static_cast<uint64_t>(count) <= MaxS)
            return true;
        set_error(scalars_text());
        return false;
    }
    template <typename T, typename V> void add_one_scalar(V &value)
    {
        scalar_source_[fields_.scalar_count] =
            std::is_lvalue_reference_v<T> ? static_cast<const void *>(&value) : nullptr;
        fields_.scalar_type[fields_.scalar_count] = dtype_of<std::remove_cv_t<V>>();
        fields_.has_scalar_types = true;
        fields_.scalar[fields_.scalar_count++] = to_u64(value);
    }
    void copy_scalars(const Arg &src, uint32_t from, int count)
    {
        const uint32_t at = fields_.scalar_count;

        add_scalars(src.fields_.scalar + from, count);
        for (uint32_t i = at; i < fields_.scalar_count; i++)
            fields_.scalar_type[i] = src.fields_.scalar_type[from + i - at];
    }

    void keep_dependencies(const PTO2TaskId *deps, const DepFlags *kinds, uint32_t count,
                           bool has_kinds)
    {
        if (count != 0 && (deps == nullptr || (has_kinds && kinds == nullptr))) {
            set_error("set_dependencies: NULL with a count above 0");
        } else if (count != 0 && fields_.dep_count != 0) {
            set_error("set_dependencies: called twice");
        } else {
            fields_.deps =
                count != 0 ? reinterpret_cast<const struct pto_task_id *>(deps) : nullptr;
            fields_.dep_kinds = count != 0 ? reinterpret_cast<const uint8_t *>(kinds) : nullptr;
            fields_.dep_count = count;
        }
    }

    void mark_all()
    {
        const uint32_t count = fields_.tensor_count + fields_.scalar_count;

        if (count == 0)
            set_error("dump: the Arg has no arguments yet");
        for (uint32_t i = 0; i < count; i++)
            simpler::mark(fields_, i, false);
    }
    template <typename T> void mark(const T &value)
    {
        static_assert(std::is_same_v<T, ChipTensor> || std::is_same_v<T, TensorCreateInfo> ||
                          is_supported_scalar_arg_v<T>,
                      "dump: tensors, create infos and scalars only");
        constexpr bool is_scalar = is_supported_scalar_arg_v<T>;
        const void *const *at = is_scalar ? scalar_source_ : fields_.tensor;
        const uint32_t count = is_scalar ? fields_.scalar_count : fields_.tensor_count;
        uint32_t first = count, found = 0;

        for (uint32_t i = 0; i < count; i++)
            if (at[i] == &value && found++ == 0)
                first = i;
        if (found == 0)
            set_error("dump: a given object is not an argument of this Arg");
        else
            simpler::mark(fields_, is_scalar ? fields_.tensor_count + first : first,
                          is_scalar && found > 1);
    }
};

using CoreTaskArgs = Arg<CORE_MAX_TENSOR_ARGS, CORE_MAX_SCALAR_ARGS>;

// The arguments of an entry in the layout in which the host sends them.
struct ChipStorageTaskArgs {
    ChipTensor tensors_[CHIP_MAX_TENSOR_ARGS];
    uint64_t scalars_[CHIP_MAX_SCALAR_ARGS];
    int32_t tensor_count_;
    int32_t scalar_count_;

    int32_t tensor_count() const
    {
        return tensor_count_;
    }
    int32_t scalar_count() const
    {
        return scalar_count_;
    }
    const ChipTensor &tensor(int32_t i) const
    {
        return tensors_[i];
    }
    uint64_t scalar(int32_t i) const
    {
        return scalars_[i];
    }
};

// The arguments of an orchestration.
struct ChipTaskArgs : Arg<CHIP_MAX_TENSOR_ARGS, CHIP_MAX_SCALAR_ARGS> {
    void create_from_chip_args(const ChipStorageTaskArgs &src)
    {
        const struct pto_entry entry = { static_cast<uint32_t>(src.tensor_count()),
                                         static_cast<uint32_t>(src.scalar_count()),
                                         reinterpret_cast<const struct pto_tensor *>(src.tensors_),
                                         src.scalars_ };

        create_from_entry(entry);
    }
    /*
     * Takes over the arguments of an entry. Tensors after the entry's last one are placeholders,
     * which submits refuse.
     */
    void create_from_entry(const struct pto_entry &entry)
    {
        reset();
        fields_.tensor_count = entry.tensor_count;
        fields_.scalar_count = entry.scalar_count;
        for (uint32_t i = 0; i < CHIP_MAX_TENSOR_ARGS; i++)
            fields_.tensor[i] = &entry.tensor[i];
        if (entry.scalar_count != 0)
            std::memcpy(fields_.scalar, entry.scalar, entry.scalar_count * sizeof(uint64_t));
    }
};

// Names that the reference used until August 2026.
using L0TaskArgs = CoreTaskArgs;
using L2TaskArgs = ChipTaskArgs;

#endif
