/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes pmu.csv in the format of simpler: a line for each execution, with the counters of one
 * group.
 *
 * The cycles of an execution are measured, one per nanosecond. Pipes and caches are not simulated,
 * so the group's counters are listed by name with the value 0.
 */
#include <inttypes.h>
#include <string.h>

#include "trace/snapshot.h"

enum { GROUP_DEFAULT = 2, COUNTERS_MAX = 10 };

/* The counters of one group of a chip generation, in the order of their columns. */
struct group {
    const char *generation; /* prefix of the platform names of this generation */
    uint32_t number;
    const char *counter[COUNTERS_MAX + 1];
};

static const struct group groups[] = {
    { "a2a3",
      1,
      { "cube_fp16_exec", "cube_int8_exec", "vec_fp32_exec", "vec_fp16_128lane_exec",
        "vec_fp16_64lane_exec", "vec_int32_exec", "vec_misc_exec" } },
    { "a2a3",
      2,
      { "vec_busy_cycles", "cube_busy_cycles", "scalar_busy_cycles", "mte1_busy_cycles",
        "mte2_busy_cycles", "mte3_busy_cycles", "icache_miss", "icache_req" } },
    { "a2a3",
      4,
      { "ub_read_req", "ub_write_req", "l1_read_req", "l1_write_req", "l2_read_req", "l2_write_req",
        "main_read_req", "main_write_req" } },
    { "a2a3",
      5,
      { "l0a_read_req", "l0a_write_req", "l0b_read_req", "l0b_write_req", "l0c_read_req",
        "l0c_write_req" } },
    { "a2a3", 6, { "bankgroup_stall_cycles", "bank_stall_cycles", "vec_resc_conflict_cycles" } },
    { "a2a3",
      7,
      { "ub_read_bw_mte", "l2_write_bw", "main_mem_write_bw", "ub_write_bw_mte",
        "ub_read_bw_vector", "ub_write_bw_vector", "ub_read_bw_scalar", "ub_write_bw_scalar" } },
    { "a2a3",
      8,
      { "write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit",
        "r0_read_cache_miss_allocate", "r1_read_cache_hit", "r1_read_cache_miss_allocate" } },
    { "a5", 1, { "cube_fp_instr_busy", "cube_int_instr_busy" } },
    { "a5",
      2,
      { "pmu_idc_aic_vec_busy_o", "cube_instr_busy", "scalar_instr_busy", "mte1_instr_busy",
        "mte2_instr_busy", "mte3_instr_busy", "icache_req", "icache_miss", "pmu_fix_instr_busy" } },
    { "a5",
      4,
      { "bif_sc_pmu_read_main_instr_core", "bif_sc_pmu_write_main_instr_core",
        "pmu_aiv_ext_rd_ub_instr", "ub_pmu_vec_rd_ub_acc", "pmu_aiv_ext_wr_ub_instr",
        "ub_pmu_vec_wr_ub_acc", "pmu_rd_l1_instr", "pmu_wr_l1_instr" } },
    { "a5",
      5,
      { "cube_sc_pmu_read_l0a_instr", "pmu_wr_l0a_instr", "cube_sc_pmu_read_l0b_instr",
        "pmu_wr_l0b_instr", "fixp_rd_l0c_instr", "cube_sc_pmu_read_l0c_instr",
        "cube_sc_pmu_write_l0c_instr" } },
    { "a5",
      6,
      { "stu_pmu_wctl_ub_cflt", "ldu_pmu_ib_ub_cflt", "pmu_idc_aic_vec_instr_vf_busy_o",
        "idu_pmu_ins_iss_cnt" } },
    { "a5",
      7,
      { "pmu_rd_acc_ub_instr_p", "pmu_wr_acc_ub_instr_p", "pmu_fix_wr_ub_instr",
        "mte_sc_pmu_write_acc_ub_instr_0", "mte_sc_pmu_read_acc_ub_instr_0", "ub_pmu_vec_rd_ub_acc",
        "ub_pmu_vec_wr_ub_acc" } },
    { "a5",
      8,
      { "bif_sc_pmu_ar_close_l2_hit_core", "bif_sc_pmu_ar_close_l2_miss_core",
        "bif_sc_pmu_ar_close_l2_victim_core", "bif_sc_pmu_aw_close_l2_hit_core",
        "bif_sc_pmu_aw_close_l2_miss_core", "bif_sc_pmu_aw_close_l2_victim_core" } },
};

/*
 * Returns the group of counters with this number for the generation of the platform. If there is no
 * such group, returns the generation's default group; for an unknown generation, the default group
 * of the first generation.
 */
static const struct group *find_group(const char *platform, uint32_t number)
{
    const struct group *found = &groups[GROUP_DEFAULT - 1];

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        const struct group *g = &groups[i];

        if (strncmp(platform, g->generation, strlen(g->generation)) != 0)
            continue;
        if (g->number == number)
            return g;
        if (g->number == GROUP_DEFAULT)
            found = g;
    }
    return found;
}

int trace_write_pmu(const struct trace_slices *slices, FILE *out)
{
    const struct trace_snapshot *s = slices->snapshot;
    const struct group *group = find_group(s->platform, s->diagnostics.pmu);

    fputs("thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles", out);
    for (uint32_t i = 0; group->counter[i] != NULL; i++)
        fprintf(out, ",%s", group->counter[i]);
    fputs(",event_type\n", out);
    for (uint64_t i = 0; i < slices->count; i++) {
        const struct trace_slice *x = &slices->slice[i];

        if (x->core == TRACE_CORE_NONE || !x->has_end)
            continue;
        fprintf(out, "%u,%u,0x%016" PRIx64 ",%u,%d,%" PRIu64, x->ring, x->core,
                trace_slices_id(slices, x->seq - 1), x->kernel, x->core >= s->record.aic_count,
                trace_slices_ns(slices, x->end) - trace_slices_ns(slices, x->begin));
        for (uint32_t k = 0; group->counter[k] != NULL; k++)
            fputs(",0", out);
        fprintf(out, ",%u\n", group->number);
    }
    return PTO_OK;
}
