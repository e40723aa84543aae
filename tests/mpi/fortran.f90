! The operations from Fortran, with Fortran's MPI_IN_PLACE, on data that names rank and position.
program fortran
    use mpi
    implicit none
    integer, parameter :: each = 5000
    integer :: error, rank, processes, i, r, failures, total
    integer, allocatable :: small(:), large(:), counts(:), displacements(:)

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, processes, error)
    allocate(small(each), large(each * processes), counts(processes), displacements(processes))
    counts = each
    displacements = [(each * (processes - r), r = 1, processes)]
    failures = 0

    large = merge([(input(0, i), i = 1, size(large))], -1, rank == 0)
    call MPI_Bcast(large, size(large), MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    failures = failures + count(large /= [(input(0, i), i = 1, size(large))])

    large = [(input(rank, i), i = 1, size(large))]
    if (rank == processes - 1) then
        call MPI_Reduce(MPI_IN_PLACE, large, size(large), MPI_INTEGER, MPI_SUM, processes - 1, &
            MPI_COMM_WORLD, error)
        failures = failures + count(large /= [(combined(i), i = 1, size(large))])
    else
        call MPI_Reduce(large, small, size(large), MPI_INTEGER, MPI_SUM, processes - 1, &
            MPI_COMM_WORLD, error)
    end if

    large = -1
    large(rank * each + 1:(rank + 1) * each) = [(input(rank, i), i = 1, each)]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, large, each, MPI_INTEGER, &
        MPI_COMM_WORLD, error)
    do r = 0, processes - 1
        failures = failures + count(large(r * each + 1:(r + 1) * each) /= [(input(r, i), i = 1, each)])
    end do

    small = [(input(rank, i), i = 1, each)]
    call MPI_Allgatherv(small, each, MPI_INTEGER, large, counts, displacements, MPI_INTEGER, &
        MPI_COMM_WORLD, error)
    do r = 0, processes - 1
        i = displacements(r + 1)
        failures = failures + count(large(i + 1:i + each) /= small - rank * 7 + r * 7)
    end do

    large = [(input(rank, i), i = 1, size(large))]
    call MPI_Reduce_scatter_block(large, small, each, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    failures = failures + count(small /= [(combined(rank * each + i), i = 1, each)])

    call MPI_Reduce_scatter(MPI_IN_PLACE, large, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    failures = failures + count(large(:each) /= [(combined(rank * each + i), i = 1, each)])

    large = [(input(rank, i), i = 1, size(large))]
    call MPI_Allreduce(MPI_IN_PLACE, large, size(large), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    failures = failures + count(large /= [(combined(i), i = 1, size(large))])

    large = [(input(rank, i), i = 1, size(large))]
    call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, large, each, MPI_INTEGER, MPI_COMM_WORLD, &
        error)
    do r = 0, processes - 1
        failures = failures + count(large(r * each + 1:(r + 1) * each) /= &
            [(input(r, rank * each + i), i = 1, each)])
    end do

    large = -1
    large(rank * each + 1:(rank + 1) * each) = [(input(rank, i), i = 1, each)]
    small = [(input(rank, i), i = 1, each)]
    if (rank == 0) then
        call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, large, each, MPI_INTEGER, 0, &
            MPI_COMM_WORLD, error)
        do r = 0, processes - 1
            failures = failures + count(large(r * each + 1:(r + 1) * each) /= &
                [(input(r, i), i = 1, each)])
        end do
        call MPI_Scatter(large, each, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, &
            MPI_COMM_WORLD, error)
    else
        call MPI_Gather(small, each, MPI_INTEGER, large, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD, &
            error)
        small = -1
        call MPI_Scatter(large, 0, MPI_DATATYPE_NULL, small, each, MPI_INTEGER, 0, MPI_COMM_WORLD, &
            error)
        failures = failures + count(small /= [(input(rank, i), i = 1, each)])
    end if

    ! By a collective that is not ours.
    call MPI_Scan(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    if (rank == processes - 1) print '(a, i0)', 'failures=', total
    call MPI_Finalize(error)

contains
    pure integer function input(rank, i)
        integer, intent(in) :: rank, i
        input = 3 * i + 7 * rank
    end function

    pure integer function combined(i)
        integer, intent(in) :: i
        combined = 3 * i * processes + 7 * (processes * (processes - 1)) / 2
    end function
end program
