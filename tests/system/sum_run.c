/* SPDX-License-Identifier: Apache-2.0 */
/* A rank: adds its number and one to a word of every rank, and prints the sum in its own word. */
#include <stdio.h>
#include <pto/comm.h>
int main(void)
{
    struct pto_comm_params params;
    struct pto_domain_params about;
    struct pto_comm_info info;
    struct pto_error error;
    struct pto_comm *comm;
    struct pto_domain *domain;
    int32_t got = 0;

    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.error = &error;
    if (pto_comm_open(&params, &comm) < 0)
        return fprintf(stderr, "%s\n", error.text), 1;
    pto_comm_info_init(&info);
    pto_domain_params_init(&about);
    about.window_bytes = 4096;
    if (pto_comm_info(comm, &info) < 0 || pto_domain_open(comm, &about, &domain) < 0)
        return 1;
    for (uint32_t i = 0; i < info.rank_count; i++)
        if (pto_comm_fetch_add(domain, i, 0, (int32_t)info.rank + 1, NULL) < 0)
            return 1;
    if (pto_comm_barrier(domain, 0, &error) < 0 ||
        pto_comm_get(domain, info.rank, 0, &got, sizeof(got)) < 0)
        return fprintf(stderr, "%s\n", error.text), 1;
    printf("sum %d\n", got);
    return pto_domain_close(domain, 0, &error) < 0 || pto_comm_close(comm) < 0;
}
