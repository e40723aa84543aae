! The operations from Fortran, by "include 'mpif.h'".
program fortran_mpif
    implicit none
    include 'mpif.h'
    include 'fortran_main.inc'
    include 'fortran_cases.inc'
end program
